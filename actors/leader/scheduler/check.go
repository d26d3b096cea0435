package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/intake"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the state that the Scheduler passes to the checks of a new job, and the counts of waiting jobs per
// owner.

// check returns the state that a new job is checked against.
func (s *Scheduler) check() *intake.Check {
	return &intake.Check{
		Queues: s.queues.record.GetQueues(), Shares: s.queues.tree, Tree: s.view.Tree(),
		DefaultLimit: s.p.Settings.DefaultLimit, Owners: s.p.Owners, Waiting: s.waiting, NowMs: s.p.Clock.WallMs(),
		Never: s.neverAllowed, Count: func(name string) { s.p.Host.Count(name, 1) },
	}
}

// onUpdate checks a change against the job's queue, then passes it to the Job.
func (s *Scheduler) onUpdate(ctx actor.Context, m *messages.Update) {
	e := s.jobs[topology.JobID(m.Job)]
	if e == nil {
		e = s.arrayFor(m.Job)
	}
	if e != nil {
		if no := s.check().Update(m, e.rec); no != nil {
			ctx.Respond(&messages.UpdateReply{Job: m.Job, Outcome: no})
			return
		}
	}
	s.toJob(ctx, m.Job, &messages.UpdateReply{Job: m.Job, Outcome: s.noJob(m.Job)})
}

// neverAllowed returns the refusal of a job that is larger than its queue's limits ever allow. It returns nil for any
// other job.
func (s *shares) neverAllowed(by *messages.Principal, spec *messages.JobSpec) *messages.SubmitReply {
	planner, is := s.planner.(policy.Sharer)
	if !is {
		return nil
	}
	gang := messages.GangOf(spec)
	traits := traitsOf(&messages.JobRecord{Spec: spec, Owner: by}, s.poolsNow())
	over := planner.Never(&gang, &traits)
	if over == nil {
		return nil
	}
	return intake.Reply("", messages.Code_CODE_INFEASIBLE, "spec.gang", "job would never start: "+over.Never(),
		"request less, or use another queue")
}

// waitingJobs counts by owner the jobs that wait for any reason. Every submit uses the counts, so they are updated with
// each change.
type waitingJobs map[string]*intake.Waiting

// idles records whether a job waits or runs. An array waits until it has ended. Its elements count in addition.
func (s *waitCounts) idles(ctx actor.Context, e *livingJob, waits bool) {
	if e.idle == waits {
		return
	}
	e.idle = waits
	s.tellArray(ctx, e)
	of := s.waiting[e.key.owner]
	if of == nil {
		of = &intake.Waiting{Queues: map[string]int{}}
		s.waiting[e.key.owner] = of
	}
	queue := e.rec.GetSpec().GetQueue()
	if waits {
		e.bytes = int64(messages.Size(e.rec))
		of.Bytes += e.bytes
		of.Queues[queue]++
		return
	}
	of.Bytes -= e.bytes
	if of.Queues[queue]--; of.Queues[queue] == 0 {
		delete(of.Queues, queue)
	}
	if len(of.Queues) == 0 {
		delete(s.waiting, e.key.owner)
	}
}
