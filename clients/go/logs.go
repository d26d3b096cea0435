package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns the reading of a job's output over the loss of a scheduler: the
// output lies on the machines, so the next one goes on where the last broke off.

// Logs reads what a job's tasks wrote until there is no more, or take refuses. A
// scheduler that goes away is waited for, by whoever follows for as long as it
// takes; lost is told once each time.
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

// reading is how far a job's output was read.
type reading struct {
	q       *api.ReadLogs
	attempt *messages.Token
	order   []stream // as they were met
	at      map[stream]int64
	missing bool // the end of a member's output was waited for in vain
	blind   bool // the server does not say how far: it cannot be gone on from
}

// stream is one of a member's two.
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

// request asks for what has not come yet.
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
