package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns questions that take more than one call: lists over all their
// pages, a machine by a prefix, a job until it is over.

// Jobs lists all jobs that pass the filters, over all pages.
func (c *Client) Jobs(ctx context.Context, q *messages.ListJobs) ([]*messages.JobStatus, error) {
	return pages(&q.After, func() ([]*messages.JobStatus, string, error) {
		page, err := c.ListJobs(ctx, q)
		return page.GetJobs(), page.GetNext(), err
	})
}

// Nodes lists all machines.
func (c *Client) Nodes(ctx context.Context) ([]*messages.NodeStatus, error) {
	q := &messages.ListNodes{Limit: messages.MaxPageEntries}
	return pages(&q.After, func() ([]*messages.NodeStatus, string, error) {
		page, err := c.ListNodes(ctx, q)
		return page.GetNodes(), page.GetNext(), err
	})
}

// pages collects all pages. Each call starts at the end of the page before.
func pages[T any](after *string, ask func() (page []T, next string, err error)) (all []T, err error) {
	for {
		page, next, err := ask()
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" || next == *after {
			return all, nil
		}
		*after = next
	}
}

// Attempts finds a job and all its attempts that are kept.
func (c *Client) Attempts(ctx context.Context, word string) (*messages.JobStatus, []*messages.AttemptRecord, error) {
	status, err := c.Job(ctx, word)
	if err != nil {
		return nil, nil, err
	}
	reply, err := c.GetJob(ctx, &messages.GetJob{Job: status.GetRecord().GetId(), Attempts: true})
	return reply.GetJob(), reply.GetAttempts(), err
}

// Script reads the text of a job's script.
func (c *Client) Script(ctx context.Context, s *messages.Script) ([]byte, error) {
	reply, err := c.ReadScript(ctx, &api.ReadScript{Digest: s.GetDigest()})
	return reply.GetText(), err
}

// Identifies reports whether the scheduler learns who asks: by TLS, or by its local socket.
func (c *Client) Identifies() bool { return c.proves() || c.next().local() }

// Send submits a job, with its script's text and its secrets' values if it has some.
func (c *Client) Send(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	if len(q.GetSpec().GetSecrets()) > 0 {
		if !c.Identifies() {
			return nil, &Error{Code: messages.Code_CODE_NOT_ALLOWED, Text: "secrets require TLS",
				Hint: "use --tls, or log in with `synapse-cli login`"}
		}
		return c.SubmitSecret(ctx, q)
	}
	if q.GetSpec().GetScript() != nil {
		return c.SubmitScript(ctx, q)
	}
	return c.Submit(ctx, q)
}

// Node finds a machine by its id or a unique prefix.
func (c *Client) Node(ctx context.Context, prefix string) (*messages.NodeStatus, error) {
	if prefix == "" {
		return nil, &Error{Code: messages.Code_CODE_INVALID, Text: "node ID is missing",
			Hint: "give an ID, or its first characters"}
	}
	if kind, name, is := strings.Cut(prefix, "/"); is && (kind == "node" || kind == "nodes") {
		prefix = name
	}
	if one, err := c.wholeNode(ctx, prefix); one != nil || err != nil {
		return one, err
	}
	all, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	one, err := nodeOf(all, prefix)
	if err != nil {
		return nil, err
	}
	whole, err := c.wholeNode(ctx, one.GetRecord().GetId())
	if whole == nil && err == nil { // it has gone meanwhile
		whole = one
	}
	return whole, err
}

// wholeNode is the machine of that id with what lists leave out; nil: there is none. An earlier scheduler leaves
// nothing out, and answers with a page, on which the machine may be.
func (c *Client) wholeNode(ctx context.Context, id string) (*messages.NodeStatus, error) {
	reply, err := c.ListNodes(ctx, &messages.ListNodes{Node: id})
	var refused *Error
	if errors.As(err, &refused) && refused.Code == messages.Code_CODE_INVALID {
		return nil, nil // no id looks like this
	}
	for _, n := range reply.GetNodes() {
		if n.GetRecord().GetId() == id {
			return n, nil
		}
	}
	return nil, err
}

// nodeOf finds one of these machines by its id, or the beginning of it.
func nodeOf(all []*messages.NodeStatus, prefix string) (*messages.NodeStatus, error) {
	var found []*messages.NodeStatus
	var names []string
	for _, n := range all {
		switch id := n.GetRecord().GetId(); {
		case id == prefix:
			return n, nil
		case strings.HasPrefix(id, prefix):
			found, names = append(found, n), append(names, id)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return nil, &Error{Code: messages.Code_CODE_NOT_FOUND, Text: fmt.Sprintf("unknown node %q", prefix),
			Hint: "run `synapse-cli get nodes` for a list"}
	}
	return nil, &Error{Code: messages.Code_CODE_CONFLICT, Text: fmt.Sprintf("%q matches several nodes: %s", prefix,
		some(names)),
		Hint: "give more characters of the ID"}
}

// Look is one look at a watch's stream.
type Look func(*messages.Event) (done bool, err error)

// errDone ends a stream that has told enough.
var errDone = errors.New("done")

// Follow watches until look is done, the context ends, or the server refuses. A
// scheduler that goes away is waited for: lost is told once each time, and what
// was missed is told when one is back. Another leader does not know what its
// predecessor told, and tells all that there is; of that, look is shown what has
// changed since.
func (c *Client) Follow(ctx context.Context, q *messages.Watch, lost func(error), look Look) error {
	w := watching{q: q, look: look, synced: !q.Present && q.After == 0, last: map[string]string{}}
	for w.pause = watchPause; ; w.pause = min(2*w.pause, time.Second) {
		err := c.watchOnce(ctx, q, w.take)
		for hops := 0; moved(err, &hops); {
			err = c.watchOnce(ctx, q, w.take)
		}
		switch {
		case err == errDone:
			return nil
		case err != nil && !Lost(err):
			return err
		case err != nil && !w.told && lost != nil && !c.expired():
			lost(err)
			w.told = true
		}
		// Where the changes since are not known, all that there is now is told.
		q.Present, w.synced, w.again = true, false, true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(w.pause):
		}
	}
}

// watchPause is before the first try to watch again.
const watchPause = 100 * time.Millisecond

// watching is how far a watch has come.
type watching struct {
	q      *messages.Watch
	look   Look
	pause  time.Duration
	told   bool              // that the scheduler is away
	synced bool              // all that there was has been told
	again  bool              // it is not the first time that this is told
	last   map[string]string // what was said last of each job and machine
}

func (w *watching) take(e *messages.Event) error {
	w.told, w.pause = false, watchPause
	known := w.again && !w.synced && w.knows(e)
	w.note(e)
	// What is there now comes in the order of ids: only behind it are all earlier changes known.
	if w.synced = w.synced || e.GetSynced(); w.synced {
		w.q.After = max(w.q.After, e.GetSeq())
	}
	if known {
		return nil
	}
	done, err := w.look(e)
	if done && err == nil {
		err = errDone
	}
	return err
}

// knows reports whether an event says what was said of that job or machine last.
func (w *watching) knows(e *messages.Event) bool {
	said, before := w.last[subject(e)]
	return before && said == e.GetText() && subject(e) != ""
}

func (w *watching) note(e *messages.Event) {
	if of := subject(e); of != "" {
		w.last[of] = e.GetText()
	}
}

// subject returns the job or node of an event; empty: it has none.
func subject(e *messages.Event) string {
	switch {
	case e.GetJob() != nil:
		return "job " + e.GetJob().GetRecord().GetId()
	case e.GetNode() != nil:
		return "machine " + e.GetNode().GetRecord().GetId()
	}
	return ""
}

func (c *Client) watchOnce(ctx context.Context, q *messages.Watch, take func(*messages.Event) error) error {
	return receive(ctx, func(ctx context.Context) (source[*messages.Event], error) { return c.Watch(ctx, q) }, take)
}

// source receives the messages of a server, one after the other.
type source[T any] interface{ Recv() (T, error) }

// receive opens a stream and takes all that it brings, until it ends or something is wrong.
func receive[T any](ctx context.Context, open func(context.Context) (source[T], error), take func(T) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := open(ctx)
	if err != nil {
		return err
	}
	for {
		one, err := from.Recv()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = take(one)
		}
		if err != nil {
			return err
		}
	}
}

// Waits is the job that an event is of, as it is from then on. Where the event is of
// a group of waiting jobs, it is the job known so far, if it waits with them.
func Waits(e *messages.Event, known *messages.JobStatus) *messages.JobStatus {
	if e.GetGroup() == 0 {
		return e.GetJob()
	}
	if known.GetGroup() != e.GetGroup() {
		return nil
	}
	return &messages.JobStatus{
		Record: known.GetRecord(), Phase: known.GetPhase(), Reason: e.GetReason(),
		ReasonCode: e.GetReasonCode(),
		Attempt:    known.GetAttempt(), Debts: known.GetDebts(), Group: known.GetGroup(),
	}
}

// Wait follows a job until it is over. shown, if any, gets every status.
func (c *Client) Wait(ctx context.Context, id string, lost func(error), shown func(*messages.JobStatus)) (
	*messages.JobStatus, error) {
	return c.WaitUntil(ctx, id, lost, func(j *messages.JobStatus) bool {
		if shown != nil {
			shown(j)
		}
		return j.GetRecord().GetState().Terminal()
	})
}

// WaitUntil follows a job until done says so of its status, which it returns.
func (c *Client) WaitUntil(ctx context.Context, id string, lost func(error), done func(*messages.JobStatus) bool) (
	*messages.JobStatus, error) {
	var last *messages.JobStatus
	err := c.Follow(ctx, &messages.Watch{Jobs: true, Ids: []string{id}, Present: true, Reasons: true}, lost,
		func(e *messages.Event) (bool, error) {
			if j := Waits(e, last); j != nil {
				last = j
				return done(j), nil
			}
			if e.GetSynced() && last == nil {
				return false, &Error{Code: messages.Code_CODE_NOT_FOUND, Text: fmt.Sprintf("job %q no longer exists",
					id),
					Hint: "finished jobs are listed only for a limited time"}
			}
			return false, nil
		})
	return last, err
}
