package gateway

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/explain"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file implements the calls with a single answer. The Scheduler handles changes, and the Mirror handles reads.

// Submit adds a job to the queue. It returns when the job is on disk.
func (g *Gateway) Submit(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	if q.GetJob() != "" {
		return g.submitCopy(ctx, q)
	}
	q.Principal, q.Sealed = g.o.Principal(ctx), nil
	q.Exempt, q.Groups = g.standing(ctx)
	if q.GetSpec().GetScript() != nil { // a node would not find the script
		return nil, api.StatusOf(invalid(&messages.FieldError{
			Field: "spec.script", Text: "needs its text", Hint: "use SubmitScript",
		}))
	}
	return call[*messages.SubmitReply](ctx, g, g.scheduler, q)
}

// standing returns the caller's properties for the Scheduler: whether it is an admin, who is exempt from limits per
// owner and the owners of queues, and its groups.
func (g *Gateway) standing(ctx context.Context) (exempt bool, groups []string) {
	who := g.o.WhoAmI(ctx)
	return who.GetRole() == string(identity.RoleAdmin), who.GetGroups()
}

// DryRun returns what would happen to a job, and changes nothing.
func (g *Gateway) DryRun(ctx context.Context, q *messages.DryRun) (*messages.DryRunReply, error) {
	q.Principal = g.o.Principal(ctx)
	q.Exempt, q.Groups = g.standing(ctx)
	return call[*messages.DryRunReply](ctx, g, g.scheduler, q)
}

// Cancel ends a job. A finished job may have no actor, so Cancel answers for it: a repeated cancel succeeds at any
// time.
func (g *Gateway) Cancel(ctx context.Context, q *messages.Cancel) (*messages.CancelReply, error) {
	q.Principal = g.o.Principal(ctx)
	reply, err := call[*messages.CancelReply](ctx, g, g.scheduler, q)
	if job := g.over(ctx, q.Job, err); job != nil {
		if job.GetRecord().GetState() == messages.JobState_JOB_STATE_CANCELLED {
			return &messages.CancelReply{Job: q.Job, Outcome: messages.OK()}, nil
		}
		return nil, hasEnded(job)
	}
	return reply, err
}

// Hold prevents a job from being planned, or releases it.
func (g *Gateway) Hold(ctx context.Context, q *messages.Hold) (*messages.HoldReply, error) {
	q.Principal = g.o.Principal(ctx)
	return wish[*messages.HoldReply](ctx, g, q.Job, q)
}

// Requeue ends the running attempt and puts the job back into the queue.
func (g *Gateway) Requeue(ctx context.Context, q *messages.Requeue) (*messages.RequeueReply, error) {
	q.Principal = g.o.Principal(ctx)
	return wish[*messages.RequeueReply](ctx, g, q.Job, q)
}

// Checkpoint requests a checkpoint of a running job, which continues.
func (g *Gateway) Checkpoint(ctx context.Context, q *messages.Checkpoint) (*messages.CheckpointReply, error) {
	q.Principal = g.o.Principal(ctx)
	return wish[*messages.CheckpointReply](ctx, g, q.Job, q)
}

// Update changes the priority or the time limit of a job.
func (g *Gateway) Update(ctx context.Context, q *messages.Update) (*messages.UpdateReply, error) {
	q.Principal = g.o.Principal(ctx)
	q.Exempt, q.Groups = g.standing(ctx)
	return wish[*messages.UpdateReply](ctx, g, q.Job, q)
}

// wish asks the Scheduler to change a job. The Scheduler may no longer know a finished job.
func wish[A outcomer](ctx context.Context, g *Gateway, id string, q question) (A, error) {
	reply, err := call[A](ctx, g, g.scheduler, q)
	if job := g.over(ctx, id, err); job != nil {
		var none A
		return none, hasEnded(job)
	}
	return reply, err
}

// over returns the finished job for which a change was too late, or nil for other errors.
func (g *Gateway) over(ctx context.Context, id string, err error) *messages.JobStatus {
	if api.OutcomeOf(err).GetCode() != messages.Code_CODE_NOT_FOUND {
		return nil
	}
	job, err := g.find(ctx, id)
	if err != nil || job.GetRecord().GetId() != id || !job.GetRecord().GetState().Terminal() {
		return nil
	}
	return job
}

func hasEnded(job *messages.JobStatus) error {
	return api.StatusOf(messages.AlreadyEnded(job.GetRecord()))
}

// ChangeNode closes, opens or removes a node.
func (g *Gateway) ChangeNode(ctx context.Context, q *messages.ChangeNode) (*messages.ChangeNodeReply, error) {
	q.Principal = g.o.Principal(ctx)
	return call[*messages.ChangeNodeReply](ctx, g, g.scheduler, q)
}

// ApplyQueues replaces the queues of the cluster. It returns when they are on disk.
func (g *Gateway) ApplyQueues(ctx context.Context, q *messages.ApplyQueues) (*messages.ApplyQueuesReply, error) {
	q.Principal = g.o.Principal(ctx)
	return call[*messages.ApplyQueuesReply](ctx, g, g.scheduler, q)
}

// GetQueues returns the queues of the cluster, and which of them the caller may not use.
func (g *Gateway) GetQueues(ctx context.Context, q *messages.GetQueues) (*messages.GetQueuesReply, error) {
	q.Principal = g.o.Principal(ctx)
	reply, err := read[*messages.GetQueuesReply](ctx, g, q)
	if err != nil {
		return nil, err
	}
	if exempt, groups := g.standing(ctx); !exempt {
		reply.Barred = reply.GetQueues().BarredTo(q.GetPrincipal().GetName(), groups)
	}
	return reply, nil
}

// GetJob returns one job, by its ID or a unique prefix of it.
func (g *Gateway) GetJob(ctx context.Context, q *messages.GetJob) (*messages.GetJobReply, error) {
	q.Principal = g.o.Principal(ctx)
	job, err := g.found(ctx, q, q.Job)
	if err != nil {
		return nil, err
	}
	reply := &messages.GetJobReply{Outcome: messages.OK(), Job: job}
	if q.Attempts && g.o.Store != nil {
		_, attempts, err := g.o.Store.Job(topology.JobID(job.GetRecord().GetId()))
		one := (*store.Damage)(nil) // the answer about the job reports its damage
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.As(err, &one) {
			return nil, unread(err)
		}
		for _, a := range attempts {
			reply.Attempts = append(reply.Attempts, a.Brief())
		}
	}
	return reply, nil
}

// found returns the job that a request is about, after checking the request.
func (g *Gateway) found(ctx context.Context, q question, id string) (*messages.JobStatus, error) {
	if err := g.admit(ctx, q); err != nil {
		return nil, err
	}
	ctx, cancel := timed(ctx)
	defer cancel()
	return g.find(ctx, id)
}

// find asks the Mirror for a job, and then the store.
func (g *Gateway) find(ctx context.Context, id string) (*messages.JobStatus, error) {
	if err := g.awaitLoaded(ctx); err != nil {
		return nil, err
	}
	reply, err := call[*messages.GetJobReply](ctx, g, g.mirror, &messages.GetJob{Principal: g.o.Principal(ctx), Job: id})
	if err == nil {
		return reply.Job, nil
	}
	if g.o.Store == nil || api.OutcomeOf(err).GetCode() != messages.Code_CODE_NOT_FOUND {
		return nil, err
	}
	record, attempts, failed := g.o.Store.Job(topology.JobID(id))
	switch one := (*store.Damage)(nil); {
	case errors.As(failed, &one):
		return nil, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "job", Hint: "restore it from a backup",
			Text: messages.AsText("finished job cannot be shown: " + failed.Error()),
		})
	case errors.Is(failed, store.ErrNotFound):
		return nil, err
	case failed != nil:
		return nil, unread(failed)
	case !record.GetState().Terminal():
		return nil, api.StatusOf(notReady()) // its actor is about to show it
	}
	s := &messages.JobStatus{Record: record, Phase: messages.EndPhase(record.GetState()), Reason: record.GetOutcome()}
	if n := len(attempts); n > 0 {
		s.Attempt = attempts[n-1]
	}
	return s, nil
}

// ListJobs returns a page of jobs.
func (g *Gateway) ListJobs(ctx context.Context, q *messages.ListJobs) (*messages.ListJobsReply, error) {
	q.Principal = g.o.Principal(ctx)
	for i, phase := range q.Phases { // older clients may write `timed out`
		q.Phases[i] = messages.PhaseOf(phase)
	}
	return read[*messages.ListJobsReply](ctx, g, q)
}

// ListNodes returns a page of nodes.
func (g *Gateway) ListNodes(ctx context.Context, q *messages.ListNodes) (*messages.ListNodesReply, error) {
	q.Principal = g.o.Principal(ctx)
	return read[*messages.ListNodesReply](ctx, g, q)
}

// GetEfficiency returns how the GPU time of the cluster was used.
func (g *Gateway) GetEfficiency(ctx context.Context, q *messages.GetEfficiency) (*messages.GetEfficiencyReply, error) {
	q.Principal = g.o.Principal(ctx)
	return read[*messages.GetEfficiencyReply](ctx, g, q)
}

// read asks the Mirror after it knows the jobs.
func read[A outcomer](ctx context.Context, g *Gateway, q question) (A, error) {
	var none A
	if err := g.admit(ctx, q); err != nil {
		return none, err
	}
	ctx, cancel := timed(ctx)
	defer cancel()
	if err := g.awaitLoaded(ctx); err != nil {
		return none, err
	}
	return call[A](ctx, g, g.mirror, q)
}

// ExplainJob returns why a job is not running, or would not run. The Mirror answers for unfinished jobs, so that
// the Scheduler is not delayed.
func (g *Gateway) ExplainJob(ctx context.Context, q *messages.ExplainJob) (*messages.ExplainJobReply, error) {
	q.Principal = g.o.Principal(ctx)
	if q.Spec != nil {
		return read[*messages.ExplainJobReply](ctx, g, q)
	}
	job, err := g.found(ctx, q, q.Job)
	if err != nil {
		return nil, err
	}
	record := job.GetRecord()
	if !record.GetState().Terminal() {
		return call[*messages.ExplainJobReply](ctx, g, g.mirror,
			&messages.ExplainJob{Principal: q.Principal, Job: record.GetId()})
	}
	e := explain.Status(job, record.GetId())
	return &messages.ExplainJobReply{Outcome: messages.OK(), Text: explain.Of(e).Line(), Explanation: e}, nil
}

// Cluster returns the cluster and the scheduler that a client is connected to.
func (g *Gateway) Cluster(ctx context.Context, q *api.Cluster) (*api.ClusterReply, error) {
	if err := g.admit(ctx, q); err != nil {
		return nil, err
	}
	return &api.ClusterReply{
		ClusterId: g.o.ClusterID, Epoch: g.o.Leader().Epoch, Version: g.o.Version, Levels: g.o.Levels,
	}, nil
}

// WhoAmI returns the identity of the caller. Standby schedulers also answer.
func (g *Gateway) WhoAmI(ctx context.Context, _ *api.WhoAmI) (*api.WhoAmIReply, error) {
	return g.o.WhoAmI(ctx), nil
}

// Job returns the record of a job, by its ID or a unique prefix of it. Package authn uses it.
func (g *Gateway) Job(ctx context.Context, id string) (*messages.JobRecord, error) {
	job, err := g.found(ctx, &messages.GetJob{Principal: g.o.Principal(ctx), Job: id}, id)
	return job.GetRecord(), err
}

// enter counts a new stream, unless too many are open.
func (g *Gateway) enter() error {
	if g.streams.Add(1) > maxStreams {
		g.leave()
		return api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_EXHAUSTED, Text: "too many watches and log readers are open",
			Hint: "close one, or try again later",
		})
	}
	return nil
}

// enterFor counts a new stream about a job, if the request is valid and the job exists.
func (g *Gateway) enterFor(ctx context.Context, q question, id string) (*messages.JobStatus, error) {
	if err := g.admit(ctx, q); err != nil {
		return nil, err
	}
	if err := g.enter(); err != nil {
		return nil, err
	}
	job, err := g.find(ctx, id)
	if err != nil {
		g.leave()
	}
	return job, err
}

func (g *Gateway) leave() { g.streams.Add(-1) }

// errInternal is the only error that a client gets for a fault in the scheduler.
var errInternal = status.Error(codes.Internal, "internal error of the scheduler; read its log")
