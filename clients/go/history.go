package client

import (
	"context"
	"slices"

	"github.com/yi-json/synapse/messages"
)

// This file owns how the past is read: page by page, however much there is.

// Past tells of jobs that are over, the newest first, until there are no more, or
// limit of them (0: all), or take refuses. more: there are others that fit.
func (c *Client) Past(
	ctx context.Context, q *messages.History, limit int, take func(*messages.HistoryReply) error,
) (more bool, err error) {
	given := q.Name
	if messages.Titled(given) {
		q.Name = messages.NameOf(given) // an earlier scheduler knows no other
	}
	for told := 0; ; {
		q.Limit = messages.MaxPageEntries
		if limit > 0 {
			q.Limit = int32(min(limit-told, messages.MaxPageEntries))
		}
		page, err := c.History(ctx, q)
		if err != nil {
			return false, err
		}
		page.Jobs = slices.DeleteFunc(page.Jobs, func(j *messages.PastJob) bool { return given != "" && j.Called() != given })
		if err := take(page); err != nil {
			return false, err
		}
		told += len(page.GetJobs())
		switch next := page.GetNext(); {
		case next == "" || next == q.After:
			return false, nil
		case limit > 0 && told >= limit:
			return true, nil
		default:
			q.After = next
		}
	}
}
