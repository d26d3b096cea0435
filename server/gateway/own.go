package gateway

import (
	"context"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file serves requests of a task about its own job. A task needs no credentials for them: the task's node proves
// which task makes the request, and the gateway checks that the attempt is the current one. So a request can concern
// no other job, and is worthless after the end of the attempt.

// OwnJob reads or changes the job of a task, in the name of the job's owner.
func (g *Gateway) OwnJob(ctx context.Context, q *api.OwnJob) (*api.OwnJobReply, error) {
	job, err := g.found(ctx, q, q.Job)
	if err != nil {
		return nil, err
	}
	asks, proven := g.calling(ctx)
	if err := mayChange(job, q, asks, proven); err != nil {
		return nil, err
	}
	reply := &api.OwnJobReply{Outcome: messages.OK(), Job: &messages.JobStatus{
		Record: job.GetRecord(), Phase: job.GetPhase(),
	}}
	who, id := job.GetRecord().GetOwner(), job.GetRecord().GetId()
	const reason = "from inside the job"
	switch q.Verb {
	case api.OwnVerb_OWN_VERB_REQUEUE, api.OwnVerb_OWN_VERB_REQUEUE_HOLD:
		_, err = wish[*messages.RequeueReply](ctx, g, id, &messages.Requeue{
			Principal: who, Job: id, Reason: reason, Run: job.GetAttempt().GetRun(),
			Hold: q.Verb == api.OwnVerb_OWN_VERB_REQUEUE_HOLD,
		})
	case api.OwnVerb_OWN_VERB_CANCEL:
		_, err = call[*messages.CancelReply](ctx, g, g.scheduler, &messages.Cancel{Principal: who, Job: id, Reason: reason})
	}
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// mayChange checks that the calling node has this task of the current attempt. A repeated requeue succeeds, because
// the first answer may be lost.
func mayChange(job *messages.JobStatus, q *api.OwnJob, asks string, proven bool) error {
	a := job.GetAttempt()
	repeated := a.GetEnd().GetCause() == messages.Cause_CAUSE_REQUEUED && q.Verb == api.OwnVerb_OWN_VERB_REQUEUE &&
		messages.FromToken(a.GetToken()) == messages.FromToken(q.Attempt)
	if err := isCurrent(job, q.Job, q.Attempt); err != nil && !repeated {
		return err
	}
	return runsThere(job, q.Rank, asks, proven)
}
