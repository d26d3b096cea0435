package client

import (
	"context"
	"fmt"

	"github.com/yi-json/synapse/messages"
)

// This file owns what is done to several jobs that were seen before: they are found first, and changed as they were.

// Scoped finds the jobs and elements that all words mean, each once, before anything is done to one. A word that names
// no job is noted, and the others stand; a refused scope ends the command.
func (c *Client) Scoped(ctx context.Context, words []string, find Find, note func(error)) (
	[]*messages.JobStatus, error) {
	var all []*messages.JobStatus
	seen := map[string]bool{}
	for _, word := range words {
		found, err := c.Scope(ctx, word, find)
		if Refused(err) {
			return nil, err
		}
		if err != nil {
			note(err)
			continue
		}
		for _, j := range found {
			if id := j.GetRecord().GetId(); !seen[id] {
				seen[id] = true
				all = append(all, j)
			}
		}
	}
	return all, nil
}

// Precede has each job found by find. Elements of an array are waited for one by one.
func (c *Client) Precede(ctx context.Context, spec *messages.JobSpec, find Find) error {
	var all []*messages.After
	for _, after := range spec.GetAfter() {
		found, err := c.Scope(ctx, after.GetJob(), find)
		if err != nil {
			return err
		}
		for _, j := range found {
			all = append(all, &messages.After{Job: j.GetRecord().GetId(), End: after.GetEnd()})
		}
	}
	spec.After = all
	return nil
}

// RequeueSeen names the run that it saw: the call may be repeated, and by then the job may run again.
func (c *Client) RequeueSeen(ctx context.Context, j *messages.JobStatus, reason string, hold bool) (_ string,
	err error) {
	id := j.GetRecord().GetId()
	run, stopped := j.GetRecord().GetRuns(), int32(0)
	switch {
	case run > 0:
		reply, failed := c.Requeue(ctx, &messages.Requeue{Job: id, Reason: reason, Hold: hold, Run: run})
		stopped, err = reply.GetRun(), failed
	case hold:
		_, err = c.Hold(ctx, &messages.Hold{Job: id, Reason: reason})
	}
	switch {
	case stopped > 0 && hold:
		return fmt.Sprintf("held: attempt %d is being stopped", stopped), err
	case stopped > 0:
		return fmt.Sprintf("requeued: attempt %d is being stopped", stopped), err
	case hold:
		return "held: no attempt was running", err
	}
	return "is already waiting", err
}

// RequeueAll requeues the elements of an array that run, each by its run: the array does not know them, and asked twice
// it would end what has begun since. Of those that wait there is nothing to stop.
func (c *Client) RequeueAll(ctx context.Context, array *messages.JobStatus, reason string,
	hold bool) (string, error) {
	id, stopped := array.GetRecord().GetId(), 0
	if hold {
		if _, err := c.Hold(ctx, &messages.Hold{Job: id, Reason: reason}); err != nil {
			return "", err
		}
	}
	elements, err := c.Jobs(ctx, &messages.ListJobs{Array: id})
	if err != nil {
		return "", err
	}
	for _, e := range elements {
		if e.GetRecord().GetState() != messages.JobState_JOB_STATE_ACTIVE {
			continue
		}
		reply, err := c.Requeue(ctx, &messages.Requeue{
			Job: e.GetRecord().GetId(), Reason: reason, Hold: hold, Run: e.GetRecord().GetRuns(),
		})
		ended := Is(err, messages.Code_CODE_CONFLICT) || Is(err, messages.Code_CODE_NOT_FOUND) // meanwhile
		if err != nil && !ended {
			return "", err
		}
		if reply.GetRun() > 0 {
			stopped++
		}
	}
	verb := "requeued"
	if hold {
		verb = "held"
	}
	return fmt.Sprintf("%s: %d running elements are being stopped", verb, stopped), nil
}
