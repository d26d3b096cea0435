package gateway

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file answers requests for the history. The call reads the store itself, without actors. Each call reads one
// page, and the next call continues.

const (
	// maxReading limits the calls that read at once; the others wait. A store has a few more connections than
	// that, so that the leader's own reads never wait for calls.
	maxReading = 2
	// historyPage is the default number of jobs per page.
	historyPage = 100
	// maxLooked limits the number of jobs that one call examines, including those that do not match.
	maxLooked = 10_000
	// maxPageBytes limits the size of a page. A single larger job is permitted.
	maxPageBytes = 2 << 20
	// maxDamaged limits the number of unreadable jobs that one page names.
	maxDamaged = 20
	// minLook and maxLook limit one read of the store. The reads grow while few jobs match.
	minLook, maxLook = 100, 1_000
)

// History returns a page of finished jobs.
func (g *Gateway) History(ctx context.Context, q *messages.History) (*messages.HistoryReply, error) {
	q.Principal = g.o.Principal(ctx)
	if err := g.admit(ctx, q); err != nil {
		return nil, err
	}
	past, err := pastOf(q)
	if err != nil {
		return nil, api.StatusOf(invalid(err))
	}
	if g.o.Store == nil {
		return nil, api.StatusOf(unavailable("history is not stored by this scheduler", ""))
	}
	ctx, cancel := timed(ctx)
	defer cancel()
	if err := g.read(ctx, g.reading); err != nil {
		return nil, err
	}
	defer func() { <-g.reading }()
	return g.readHistory(ctx, q, past)
}

// read waits for a place among the running reads.
func (g *Gateway) read(ctx context.Context, among chan struct{}) error {
	select {
	case among <- struct{}{}:
		return nil
	case <-ctx.Done():
		return lapsed(ctx.Err())
	case <-g.closed:
		return api.StatusOf(closing())
	}
}

func (g *Gateway) readHistory(
	ctx context.Context, q *messages.History, past store.Past,
) (*messages.HistoryReply, error) {
	limit := int(q.Limit)
	if limit == 0 {
		limit = historyPage
	}
	r := &messages.HistoryReply{Outcome: messages.OK()}
	weight, looked := 0, 0
	for past.Look = min(limit, minLook); ; past.Look = min(2*past.Look, maxLook) {
		if err := ctx.Err(); err != nil {
			return nil, lapsed(err)
		}
		page, err := g.o.Store.History(past)
		if err != nil {
			return nil, api.StatusOf(unavailable("store cannot be read: "+err.Error(), "try again in a few seconds"))
		}
		for _, d := range page.Damaged {
			words := messages.AsText(fmt.Sprintf("job %s: %s", d.Job, d.What))
			if len(r.Damaged) < maxDamaged && !slices.Contains(r.Damaged, words) {
				r.Damaged = append(r.Damaged, words)
			}
		}
		for i := range page.Jobs {
			one := account(&page.Jobs[i], q.Ranks)
			size := proto.Size(one)
			if len(r.Jobs) == limit || len(r.Jobs) > 0 && weight+size > maxPageBytes {
				r.Next = tokenOf(past.Before)
				return r, nil
			}
			weight += size
			r.Jobs = append(r.Jobs, one)
			past.Before = store.PositionOf(page.Jobs[i].Job)
		}
		looked += page.Looked
		if past.Before = page.Next; past.Before == (store.Position{}) {
			return r, nil
		}
		if len(r.Jobs) == limit || looked >= maxLooked {
			r.Next = tokenOf(past.Before)
			return r, nil
		}
	}
}

// pastOf returns the query for the store.
func pastOf(q *messages.History) (store.Past, error) {
	p := store.Past{
		SinceUnixMs: q.SinceUnixMs, Owner: q.Owner, Queue: q.Queue, Name: q.Name, States: q.States, Labels: q.Labels,
	}
	if q.UntilUnixMs != 0 {
		p.Before.FinishedUnixMs = q.UntilUnixMs
	}
	if q.After == "" {
		return p, nil
	}
	finished, job, ok := strings.Cut(q.After, "/")
	ms, err := strconv.ParseInt(finished, 10, 64)
	if !ok || job == "" || err != nil {
		return p, &messages.FieldError{
			Field: "after", Text: fmt.Sprintf("%q is not a position in the history", q.After),
			Hint: "use next of the last reply",
		}
	}
	p.Before = store.Position{FinishedUnixMs: ms, Job: topology.JobID(job)}
	return p, nil
}

// tokenOf returns the position at which the next call continues.
func tokenOf(p store.Position) string {
	return strconv.FormatInt(p.FinishedUnixMs, 10) + "/" + string(p.Job)
}
