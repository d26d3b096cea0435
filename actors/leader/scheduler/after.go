package scheduler

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/intake"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns jobs that wait for other jobs to end. A dependency is met by the other job's final state on disk, and
// it counts once it is in the record of the waiting job. After that the other job's record may be deleted. A dependency
// that cannot be met cancels the waiting job. That is an end like any other, so a chain of jobs is cancelled.
//
// The Scheduler knows which jobs wait for which, and sends the ends to the waiting Jobs, which write them. If a message
// is lost with a leader or an actor, it is sent again to the waiting job's next actor.

// await reports the ended dependencies of a job to its actor at once, and the others when they end.
func (s *Scheduler) await(ctx actor.Context, e *livingJob, rec *messages.JobRecord) {
	for _, a := range rec.Awaits() {
		id := topology.JobID(a.Job)
		switch p := s.jobs[id]; {
		case p != nil && p.concluded != messages.JobState_JOB_STATE_UNSPECIFIED:
			ctx.Send(e.pid, protocol.Foregone{Known: &messages.AfterKnown{Job: a.Job, State: p.concluded}})
		case p != nil || s.damaged[id] != nil:
			if !slices.Contains(s.followers[id], e.id) {
				s.followers[id] = append(s.followers[id], e.id)
			}
		default:
			s.ask(find{follower: e.id}, actors.Query{Job: id})
		}
	}
}

// conclude reports a job's final state to all jobs that wait for it.
func (s *Scheduler) conclude(ctx actor.Context, job topology.JobID, state messages.JobState) {
	if e := s.jobs[job]; e != nil {
		e.concluded = state
		s.tellArray(ctx, e)
		s.leavesPlace(ctx, e)
	}
	for _, id := range s.followers[job] {
		if e := s.jobs[id]; e != nil && e.pid != nil {
			ctx.Send(e.pid, protocol.Foregone{Known: &messages.AfterKnown{Job: string(job), State: state}})
		}
	}
	delete(s.followers, job)
}

// onFollowed handles the store's answer about a finished job that another job waits for. If the record was deleted, the
// job has ended with an unknown result.
func (s *jobTable) onFollowed(ctx actor.Context, id topology.JobID, m actors.Found) {
	e := s.jobs[id]
	switch {
	case e == nil || e.pid == nil:
	case m.Err != "":
		s.askLater(find{follower: id}, m.Query)
	case m.Damaged != "" || m.Job == nil || m.Job.State.Terminal():
		ctx.Send(e.pid, protocol.Foregone{Known: &messages.AfterKnown{Job: string(m.Query.Job), State: m.Job.GetState()}})
	}
}

// living returns the jobs that a spec depends on and that have not ended.
func (s *jobTable) living(spec *messages.JobSpec) (all []*messages.After) {
	for _, a := range spec.GetAfter() {
		if p := s.jobs[topology.JobID(a.Job)]; p != nil && p.concluded == messages.JobState_JOB_STATE_UNSPECIFIED {
			all = append(all, a)
		}
	}
	return all
}

// seek looks up the jobs that a new job depends on. The new job's record is written when all are known.
func (s *evidence) seek(ctx actor.Context, e *livingJob) {
	for _, a := range e.rec.Awaits() {
		id := topology.JobID(a.Job)
		if p := s.jobs[id]; p == nil || p.pid == nil {
			s.ask(find{sought: e}, actors.Query{Job: id})
			return
		}
	}
	ctx.Request(s.peers.Journal, protocol.Write{Lane: protocol.LaneSubmits, Change: actors.Change{Job: e.rec}, Tag: e})
}

// onSought continues a submit with the store's answer about a dependency.
func (s *Scheduler) onSought(ctx actor.Context, e *livingJob, m actors.Found) {
	id := string(m.Query.Job)
	no := func(code messages.Code, text, hint string) {
		s.drop(ctx, e, intake.Reply("", code, "spec.after", text, hint))
	}
	switch {
	case m.Err != "":
		no(messages.Code_CODE_UNAVAILABLE, "store cannot be read: "+m.Err, "try again with the same request ID")
	case m.Damaged != "" || s.damaged[m.Query.Job] != nil:
		no(messages.Code_CODE_CONFLICT, "record of job "+id+" is corrupted: how it ended is unknown",
			"remove the dependency")
	case m.Job == nil:
		no(messages.Code_CODE_NOT_FOUND, "unknown job "+id, "run `synapse-cli get jobs` for a list")
	case m.Job.State.Terminal():
		e.rec.AfterKnown = append(e.rec.AfterKnown, &messages.AfterKnown{Job: id, State: m.Job.State})
		s.seek(ctx, e)
	case s.jobs[m.Query.Job] != nil: // it had no actor when the question was sent
		s.seek(ctx, e)
	default:
		no(messages.Code_CODE_UNAVAILABLE, "job "+id+" is not ready", "try again with the same request ID")
	}
}
