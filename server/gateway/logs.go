package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file reads the output of a job: it selects the attempt, the tasks and the order, and detects the end. The
// nodes hold the output, and the gateway requests each page from their agents. The gateway stores nothing.
// logs_output.go reads one stream of one task.

const (
	followPause = 200 * time.Millisecond // interval of checks for more output
	deafPause   = 10 * time.Second       // pause before an unresponsive node is asked again
	lastPause   = time.Second            // this pause if only the end of the output is missing
	lastWait    = 60 * time.Second       // how long the end of the output is awaited
	maxAsked    = 32                     // concurrent page requests of a following reader, which limits its memory
)

// ReadLogs sends the output of a job's tasks: task by task, or with follow in the order of arrival.
func (g *Gateway) ReadLogs(q *api.ReadLogs, stream grpc.ServerStreamingServer[api.LogPart]) error {
	ctx := stream.Context()
	q.Principal = g.o.Principal(ctx)
	job, err := g.enterFor(ctx, q, q.Job)
	if err != nil {
		return err
	}
	defer g.leave()
	r := &reader{
		g: g, ctx: ctx, q: q, send: stream.Send, id: job.GetRecord().GetId(), deaf: map[topology.NodeID]time.Time{},
	}
	attempt, err := r.attempt(job)
	if err != nil {
		return err
	}
	if q.Follow {
		return r.goOn(job, attempt)
	}
	if attempt == nil {
		return r.send(&api.LogPart{Notice: "job has not started yet: it is " + job.GetPhase()})
	}
	if err := r.begin(attempt); err != nil {
		return err
	}
	return r.finish()
}

// reader is one call of ReadLogs.
type reader struct {
	g       *Gateway
	ctx     context.Context
	q       *api.ReadLogs
	send    func(*api.LogPart) error
	id      string
	token   topology.Token
	outputs []*output
	deaf    map[topology.NodeID]time.Time // unresponsive nodes and when they last did not answer
}

// attempt returns the requested attempt, or nil if there is none yet. A reader that resumes gets its earlier
// attempt, which may not be the latest. If that attempt is no longer stored, the reader gets the complete output of
// the latest.
func (r *reader) attempt(job *messages.JobStatus) (*messages.AttemptRecord, error) {
	latest := job.GetAttempt()
	token := messages.FromToken(latest.GetToken())
	if begun := messages.FromToken(r.q.GetAttempt()); r.q.GetAttempt() != nil && begun != token {
		earlier, err := r.kept(begun, 0)
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return nil, unread(err)
		}
		if earlier == nil {
			r.q.TailBytes, r.q.TailLines = 0, 0
			earlier = latest
		}
		return earlier, nil
	}
	if r.q.GetAttempt() != nil || !r.q.Previous {
		return latest, nil
	}
	if latest.GetRun() < 2 {
		return nil, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_NOT_FOUND, Field: "previous", Text: "job has no earlier attempt",
			Hint: "omit previous to read the latest attempt",
		})
	}
	if r.g.o.Store == nil {
		return nil, api.StatusOf(unavailable("output of earlier attempts is not stored by this scheduler",
			"omit previous to read the latest attempt"))
	}
	earlier, err := r.kept(token, 1)
	switch {
	case err != nil:
		return nil, unread(err)
	case earlier == nil:
		return nil, api.StatusOf(unavailable("output of the earlier attempt is no longer stored",
			"omit previous to read the latest attempt"))
	}
	return earlier, nil
}

// unread returns the error for an unreadable store. The client retries and misses nothing.
func unread(err error) error {
	return api.StatusOf(unavailable("store cannot be read: "+err.Error(), "try again in a few seconds"))
}

// kept finds an attempt in the store: the one that is before places earlier than the one with this token. It
// returns nil if the store has none.
func (r *reader) kept(token topology.Token, before int) (*messages.AttemptRecord, error) {
	if r.g.o.Store == nil {
		return nil, nil
	}
	_, attempts, err := r.g.o.Store.Job(topology.JobID(r.id))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	at := slices.IndexFunc(attempts, func(a *messages.AttemptRecord) bool {
		return messages.FromToken(a.GetToken()) == token
	})
	if at < before {
		return nil, nil
	}
	return attempts[at-before], nil
}

// begin starts an attempt: it creates two streams for each requested task.
func (r *reader) begin(a *messages.AttemptRecord) error {
	r.token, r.outputs = messages.FromToken(a.GetToken()), nil
	members := 0
	wanted := make(map[int32]bool, len(r.q.Ranks))
	for _, rank := range r.q.Ranks {
		wanted[rank] = true
	}
	for _, p := range a.GetPlaces() {
		if len(wanted) > 0 && !wanted[p.GetRank()] {
			continue
		}
		members++
		for _, stderr := range []bool{false, true} {
			r.outputs = append(r.outputs, &output{
				r: r, attempt: a.GetToken(), rank: p.GetRank(), node: topology.NodeID(p.GetNode()), stderr: stderr,
				exited: p.GetExit() != nil || a.GetEnd() != nil,
			})
		}
	}
	if members < len(r.q.Ranks) {
		return api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_NOT_FOUND, Field: "ranks",
			Text: fmt.Sprintf("job has ranks 0 to %d, and others are requested", len(a.GetPlaces())-1),
			Hint: "omit ranks for all",
		})
	}
	return r.position()
}

// position moves every stream to its start: where the client stopped reading, or the requested tail.
func (r *reader) position() error {
	type stream struct {
		rank   int32
		stderr bool
	}
	reached := map[stream]int64{}
	if r.token == messages.FromToken(r.q.GetAttempt()) {
		for _, p := range r.q.GetFrom() {
			reached[stream{p.GetRank(), p.GetStderr()}] = p.GetOffset()
		}
	}
	for _, o := range r.outputs {
		if offset, begun := reached[stream{o.rank, o.stderr}]; begun {
			o.offset = offset
			continue
		}
		if r.q.TailBytes > 0 || r.q.TailLines > 0 {
			if err := o.tail(r.q.TailBytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish reads every stream to its current end, one after the other.
func (r *reader) finish() error {
	for _, o := range r.outputs {
		for !o.over {
			if err := r.ctx.Err(); err != nil {
				return lapsed(err)
			}
			got, answered := o.page()
			if !answered {
				if err := o.unheard(); err != nil {
					return err
				}
				o.over = true
				continue
			}
			if _, err := o.take(got); err != nil {
				return err
			}
			o.over = got.End || len(got.Data) == 0
		}
		if err := o.flush(); err != nil {
			return err
		}
	}
	return nil
}

// goOn follows a job. A client that stopped in an earlier attempt first gets the rest of that attempt.
func (r *reader) goOn(job *messages.JobStatus, attempt *messages.AttemptRecord) error {
	if messages.FromToken(attempt.GetToken()) != messages.FromToken(job.GetAttempt().GetToken()) {
		if err := r.begin(attempt); err != nil {
			return err
		}
		if err := r.finish(); err != nil {
			return err
		}
		r.outputs, r.q.TailBytes, r.q.TailLines = nil, 0, 0
	}
	return r.follow(job)
}

// follow sends new output of this attempt and all later ones, until the job has finished and all output is read. It
// reads the job's record before the pages, because a task that had ended by then writes nothing more.
func (r *reader) follow(job *messages.JobStatus) error {
	for {
		if a := job.GetAttempt(); a != nil && messages.FromToken(a.GetToken()) != r.token {
			if err := r.finish(); err != nil {
				return err
			}
			if err := r.begin(a); err != nil {
				return err
			}
			r.q.TailBytes, r.q.TailLines = 0, 0 // later attempts are read from the beginning
		}
		over := job.GetRecord().GetState().Terminal()
		r.markExited(job, over)
		more, err := r.round()
		if err != nil {
			return err
		}
		if over && !slices.ContainsFunc(r.outputs, func(o *output) bool { return !o.over }) {
			return nil
		}
		if !more {
			if err := r.pause(); err != nil {
				return err
			}
		}
		if job, err = r.g.find(r.ctx, r.id); err != nil {
			return err
		}
	}
}

// markExited marks the streams of tasks that have ended.
func (r *reader) markExited(job *messages.JobStatus, over bool) {
	a := job.GetAttempt()
	gone := map[int32]bool{}
	for _, p := range a.GetPlaces() {
		gone[p.GetRank()] = p.GetExit() != nil
	}
	for _, o := range r.outputs {
		o.exited = o.exited || over || gone[o.rank]
	}
}

// round reads a page of every stream that may have more. It reports whether any stream certainly has more.
func (r *reader) round() (more bool, err error) {
	var open []*output
	for _, o := range r.outputs {
		switch {
		case o.over:
		case !r.isDeaf(o):
			open = append(open, o)
		case o.exited && o.givenUp():
			if err := o.leave(); err != nil {
				return false, err
			}
		}
	}
	for batch := range slices.Chunk(open, maxAsked) {
		some, err := r.roundOf(batch)
		if err != nil {
			return false, err
		}
		more = more || some
	}
	return more, nil
}

// isDeaf reports whether to skip an unresponsive node for now. A follower that waits only for the end of a task
// asks the node again soon, because after a takeover the nodes connect to the new leader one by one.
func (r *reader) isDeaf(o *output) bool {
	missed, deaf := r.deaf[o.node]
	pause := deafPause
	if r.q.Follow && o.exited {
		pause = lastPause
	}
	return deaf && r.g.o.Clock.Now().Before(missed.Add(pause))
}

func (r *reader) roundOf(batch []*output) (more bool, err error) {
	pages := make([]*page, len(batch))
	for i, o := range batch {
		pages[i] = o.ask(o.offset, pageBytes)
		defer pages[i].done()
	}
	deadline := r.g.o.Clock.After(machinePatience)
	for i, o := range batch {
		got, answered := pages[i].wait(deadline)
		if !answered {
			if r.ctx.Err() != nil {
				return false, lapsed(r.ctx.Err())
			}
			deadline = past // the other streams had the same time
			if err := o.unheard(); err != nil {
				return false, err
			}
			continue
		}
		delete(r.deaf, o.node)
		some, err := o.take(got)
		if err != nil {
			return false, err
		}
		more = more || some
		if ended := got.End || len(got.Data) == 0; ended && o.exited {
			o.over = true
		}
		if o.over || len(got.Data) == 0 {
			if err := o.flush(); err != nil { // an incomplete line is not held back for long
				return false, err
			}
		}
	}
	return more, nil
}

func (r *reader) pause() error {
	select {
	case <-r.g.o.Clock.After(followPause):
		return nil
	case <-r.ctx.Done():
		return lapsed(r.ctx.Err())
	case <-r.g.closed:
		return api.StatusOf(closing())
	}
}

// past is a deadline that has passed.
var past = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()
