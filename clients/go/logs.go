package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file reads the output of a job across the loss of a scheduler. The nodes hold the output, so the next
// scheduler can continue at the same position.

// Logs reads the output of a job's tasks until the output ends or take returns an error. If the scheduler
// becomes unreachable, Logs calls lost once and waits. With follow it waits without a limit.
func (c *Client) Logs(ctx context.Context, q *api.ReadLogs, lost func(error), take func(*api.LogPart) error) error {
	r := reading{q: q, at: map[stream]int64{}}
	until := time.Now().Add(c.config.Retry)
	told := false
	for pause := watchPause; ; pause = min(2*pause, time.Second) {
		part := func(p *api.LogPart) error {
			told, pause, until = false, watchPause, time.Now().Add(c.config.Retry)
			r.note(p)
			return take(p)
		}
		err := c.logsOnce(ctx, r.request(), part)
		for hops := 0; moved(err, &hops); {
			err = c.logsOnce(ctx, r.request(), part)
		}
		if err == nil && r.missing {
			return &Error{Code: messages.Code_CODE_UNAVAILABLE, Text: "end of the output is missing",
				Hint: "run `synapse-cli logs` when the node answers again"}
		}
		if !Lost(err) || r.blind || !q.GetFollow() && time.Now().After(until) {
			return err
		}
		if !told && lost != nil && !c.expired() {
			lost(err)
			told = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// reading holds the progress of reading a job's output.
type reading struct {
	q       *api.ReadLogs
	attempt *messages.Token
	order   []stream // in order of first output
	at      map[stream]int64
	missing bool // the end of a task's output did not arrive in time
	blind   bool // the server sends no offsets, so reading cannot be resumed
}

// stream identifies one output stream of a task.
type stream struct {
	rank   int32
	stderr bool
}

func (r *reading) note(p *api.LogPart) {
	r.missing = r.missing || p.GetMissing()
	if p.GetAttempt() == nil || len(p.GetData()) == 0 {
		return
	}
	if !proto.Equal(r.attempt, p.GetAttempt()) {
		r.attempt, r.order = p.GetAttempt(), nil
		clear(r.at)
	}
	s := stream{p.GetRank(), p.GetStderr()}
	if _, known := r.at[s]; !known {
		r.order = append(r.order, s)
	}
	r.at[s] = p.GetOffset()
	r.blind = r.blind || p.GetOffset() == 0
}

// request returns the request for the rest of the output.
func (r *reading) request() *api.ReadLogs {
	if r.attempt == nil {
		return r.q
	}
	q := proto.Clone(r.q).(*api.ReadLogs)
	q.Attempt = r.attempt
	for _, s := range r.order {
		q.From = append(q.From, &api.LogPosition{Rank: s.rank, Stderr: s.stderr, Offset: r.at[s]})
	}
	return q
}

func (c *Client) logsOnce(ctx context.Context, q *api.ReadLogs, take func(*api.LogPart) error) error {
	return receive(ctx, func(ctx context.Context) (source[*api.LogPart], error) { return c.ReadLogs(ctx, q) }, take)
}
