package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/messages"
)

// This file owns questions that take more than one call: lists over all their
// pages, what a prefix means, a job until it is over.

// Jobs lists all jobs that pass the filters, over all pages.
func (c *Client) Jobs(ctx context.Context, q *messages.ListJobs) ([]*messages.JobStatus, error) {
	var all []*messages.JobStatus
	for {
		page, err := c.ListJobs(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetJobs()...)
		if page.GetNext() == "" || page.GetNext() == q.After {
			return all, nil
		}
		q.After = page.GetNext()
	}
}

// Nodes lists all machines.
func (c *Client) Nodes(ctx context.Context) ([]*messages.NodeStatus, error) {
	var all []*messages.NodeStatus
	q := &messages.ListNodes{Limit: messages.MaxPageEntries}
	for {
		page, err := c.ListNodes(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetNodes()...)
		if page.GetNext() == "" || page.GetNext() == q.After {
			return all, nil
		}
		q.After = page.GetNext()
	}
}

// Job finds a job by its id or a unique prefix.
func (c *Client) Job(ctx context.Context, prefix string) (*messages.JobStatus, error) {
	reply, err := c.GetJob(ctx, &messages.GetJob{Job: prefix})
	return reply.GetJob(), err
}

// Node finds a machine by its id or a unique prefix.
func (c *Client) Node(ctx context.Context, prefix string) (*messages.NodeStatus, error) {
	if prefix == "" {
		return nil, &Error{Code: messages.Code_CODE_INVALID, Text: "no machine is named", Hint: "give an id, or the beginning of one"}
	}
	all, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
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
		return nil, &Error{Code: messages.Code_CODE_NOT_FOUND, Text: fmt.Sprintf("there is no machine %q", prefix), Hint: "`synapse-cli get nodes` lists them"}
	case len(names) > 5:
		names = append(names[:5], "and more")
	}
	return nil, &Error{Code: messages.Code_CODE_CONFLICT, Text: fmt.Sprintf("%q begins the id of %s", prefix, strings.Join(names, ", ")), Hint: "give more of the id"}
}

// Look is one look at a watch's stream.
type Look func(*messages.Event) (done bool, err error)

// errDone ends a stream that has told enough.
var errDone = errors.New("done")

// Events watches until look is done, the context ends, or the server refuses. A
// scheduler that goes away is waited for: lost is told once each time, and what
// was missed is told when one is back.
func (c *Client) Events(ctx context.Context, q *messages.Watch, lost func(error), look Look) error {
	told, synced := false, !q.Present && q.After == 0
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := c.watchOnce(ctx, q, func(e *messages.Event) error {
			told, pause = false, 100*time.Millisecond
			// What is there now comes in the order of ids: only behind it are all earlier changes known.
			if synced = synced || e.GetSynced(); synced {
				q.After = max(q.After, e.GetSeq())
			}
			done, err := look(e)
			if done && err == nil {
				err = errDone
			}
			return err
		})
		switch {
		case err == errDone:
			return nil
		case err != nil && !Lost(err):
			return err
		case err != nil && !told && lost != nil:
			lost(err)
			told = true
		}
		// Where the changes since are not known, all that there is now is told.
		q.Present, synced = true, false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (c *Client) watchOnce(ctx context.Context, q *messages.Watch, take func(*messages.Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Watch(ctx, q)
	if err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = take(event)
		}
		if err != nil {
			return err
		}
	}
}

// Finish follows a job until it is over. shown, if any, gets every status.
func (c *Client) Finish(ctx context.Context, id string, lost func(error), shown func(*messages.JobStatus)) (*messages.JobStatus, error) {
	var last *messages.JobStatus
	err := c.Events(ctx, &messages.Watch{Jobs: true, Ids: []string{id}, Present: true}, lost, func(e *messages.Event) (bool, error) {
		if j := e.GetJob(); j != nil {
			last = j
			if shown != nil {
				shown(j)
			}
			return j.GetRecord().GetState().Terminal(), nil
		}
		if e.GetSynced() && last == nil {
			return false, &Error{Code: messages.Code_CODE_NOT_FOUND, Text: fmt.Sprintf("there is no job %q any more", id), Hint: "finished jobs are shown for a while only"}
		}
		return false, nil
	})
	return last, err
}

// Logs reads what a job's tasks wrote until there is no more, or take refuses.
func (c *Client) Logs(ctx context.Context, q *api.ReadLogs, take func(*api.LogPart) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.ReadLogs(ctx, q)
	if err != nil {
		return err
	}
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = take(part)
		}
		if err != nil {
			return err
		}
	}
}
