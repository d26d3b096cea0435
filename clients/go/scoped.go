package client

import (
	"context"
	"fmt"

	"github.com/yi-json/synapse/messages"
)

// This file changes several jobs. It first finds all of them, and then changes them in the state in which
// they were found.

// Scoped finds the jobs and elements that the arguments name, each once, before the command changes any of
// them. note receives the error of an argument that names no job, and the search continues. A refused scope
// ends the command.
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

// Precede replaces the dependencies of a job by the IDs that find returns. Each named element of an array
// becomes one dependency.
func (c *Client) Precede(ctx context.Context, spec *messages.JobSpec, find Find) error {
	var all []*messages.After
	for _, after := range spec.GetAfter() {
		found, err := c.Scope(ctx, after.GetJob(), find)
		if err != nil {
			return err
		}
		for _, j := range found {
			all = append(all, &messages.After{
				Job: j.GetRecord().GetId(), End: after.GetEnd(), DelayMs: after.GetDelayMs(),
			})
		}
	}
	spec.After = all
	return nil
}

// RequeueSeen requeues a job. The request names the attempt that was seen, because a repeated call could
// otherwise end the next attempt.
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

// RequeueSaved requeues a job after a checkpoint. The request names the attempt that was seen.
func (c *Client) RequeueSaved(ctx context.Context, j *messages.JobStatus, reason string, hold bool) (string, error) {
	reply, err := c.Requeue(ctx, &messages.Requeue{
		Job: j.GetRecord().GetId(), Reason: reason, Hold: hold, Run: j.GetRecord().GetRuns(), Checkpoint: true,
	})
	if reply.GetRun() == 0 {
		return "is already waiting", err
	}
	return fmt.Sprintf("requeued: attempt %d is saving a checkpoint", reply.GetRun()), err
}

// RequeueAll requeues the running elements of an array, each with the attempt that was seen. A request for
// the complete array would not name the attempts, so a repeated call could end new attempts. Waiting elements
// need no request.
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
		ended := Is(err, messages.Code_CODE_CONFLICT) || Is(err, messages.Code_CODE_NOT_FOUND) // ended meanwhile
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
