package client

import (
	"context"
	"slices"

	"github.com/yi-json/synapse/messages"
)

// This file reads the history page by page, for any number of jobs.

// Past passes finished jobs to take, newest first. It ends after limit jobs (0: all jobs), or when take
// returns an error. more reports whether further jobs match.
func (c *Client) Past(
	ctx context.Context, q *messages.History, limit int, take func(*messages.HistoryReply) error,
) (more bool, err error) {
	given := q.Name
	if messages.Titled(given) {
		q.Name = messages.NameOf(given) // older schedulers know only this name
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
