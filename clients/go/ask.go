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

// This file implements the requests that need more than one call: complete lists, a node by a prefix of its
// ID, and the wait until a job finishes.

// Jobs lists all jobs that pass the filters, over all pages.
func (c *Client) Jobs(ctx context.Context, q *messages.ListJobs) ([]*messages.JobStatus, error) {
	return pages(&q.After, func() ([]*messages.JobStatus, string, error) {
		page, err := c.ListJobs(ctx, q)
		return page.GetJobs(), page.GetNext(), err
	})
}

// Nodes lists all nodes.
func (c *Client) Nodes(ctx context.Context) ([]*messages.NodeStatus, error) {
	q := &messages.ListNodes{Limit: messages.MaxPageEntries}
	return pages(&q.After, func() ([]*messages.NodeStatus, string, error) {
		page, err := c.ListNodes(ctx, q)
		return page.GetNodes(), page.GetNext(), err
	})
}

// pages collects all pages of a list. Each call of ask starts after the last entry of the previous page.
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

// Attempts finds a job and all its attempts in the records.
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

// Identifies reports whether the scheduler learns the caller's identity: through TLS, or through the local
// socket.
func (c *Client) Identifies() bool { return c.proves() || c.next().local() }

// Send submits a job, with the text of its script and the values of its secrets, if any.
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

// Node finds a node by its ID or a unique prefix of the ID.
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
	if whole == nil && err == nil { // the node has been removed meanwhile
		whole = one
	}
	return whole, err
}

// wholeNode returns the node with this ID, including the fields that lists omit, or nil if there is no such
// node. An older scheduler omits no fields and ignores the ID: it answers with a page that may contain the
// node.
func (c *Client) wholeNode(ctx context.Context, id string) (*messages.NodeStatus, error) {
	reply, err := c.ListNodes(ctx, &messages.ListNodes{Node: id})
	var refused *Error
	if errors.As(err, &refused) && refused.Code == messages.Code_CODE_INVALID {
		return nil, nil // no node ID has this form
	}
	for _, n := range reply.GetNodes() {
		if n.GetRecord().GetId() == id {
			return n, nil
		}
	}
	return nil, err
}

// nodeOf finds one of these nodes by its ID or a unique prefix of the ID.
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

// Look receives one event of a watch. It reports whether the watch is done.
type Look func(*messages.Event) (done bool, err error)

// errDone ends a stream after the last event that the caller needs.
var errDone = errors.New("done")

// Follow watches until look is done, the context ends, or the server refuses. If the scheduler becomes
// unreachable, Follow calls lost once, waits until a scheduler answers, and continues with the missed events.
// A new leader does not know which events its predecessor sent, so it sends the complete state. look then
// gets only the changes.
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
		// Without a known position, the watch requests the complete state again.
		q.Present, w.synced, w.again = true, false, true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(w.pause):
		}
	}
}

// watchPause is the pause before the first try to watch again.
const watchPause = 100 * time.Millisecond

// watching holds the progress of a watch.
type watching struct {
	q      *messages.Watch
	look   Look
	pause  time.Duration
	told   bool              // lost was called for this outage
	synced bool              // the complete state has been received
	again  bool              // the state is sent again, after an outage
	last   map[string]string // the last text about each job and node
}

func (w *watching) take(e *messages.Event) error {
	w.told, w.pause = false, watchPause
	known := w.again && !w.synced && w.knows(e)
	w.note(e)
	// The initial state is sorted by ID. All earlier changes are known only after the end of this state.
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

// knows reports whether an event repeats the last text about its job or node.
func (w *watching) knows(e *messages.Event) bool {
	said, before := w.last[subject(e)]
	return before && said == e.GetText() && subject(e) != ""
}

func (w *watching) note(e *messages.Event) {
	if of := subject(e); of != "" {
		w.last[of] = e.GetText()
	}
}

// subject returns the job or node of an event, or "" if the event has none.
func subject(e *messages.Event) string {
	switch {
	case e.GetJob() != nil:
		return "job " + e.GetJob().GetRecord().GetId()
	case e.GetNode() != nil:
		return "node " + e.GetNode().GetRecord().GetId()
	}
	return ""
}

func (c *Client) watchOnce(ctx context.Context, q *messages.Watch, take func(*messages.Event) error) error {
	return receive(ctx, func(ctx context.Context) (source[*messages.Event], error) { return c.Watch(ctx, q) }, take)
}

// source receives the messages of a server, one by one.
type source[T any] interface{ Recv() (T, error) }

// receive opens a stream and passes each message to take, until the stream ends or an error occurs.
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

// Waits returns the new status of the job of an event. For an event about a group of waiting jobs, Waits
// updates the known job if the job belongs to the group, and otherwise returns nil.
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

// Wait follows a job until it finishes. shown, if set, receives every status.
func (c *Client) Wait(ctx context.Context, id string, lost func(error), shown func(*messages.JobStatus)) (
	*messages.JobStatus, error) {
	return c.WaitUntil(ctx, id, lost, func(j *messages.JobStatus) bool {
		if shown != nil {
			shown(j)
		}
		return j.GetRecord().GetState().Terminal()
	})
}

// WaitUntil follows a job until done returns true for its status, and returns this status.
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
