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

// This file owns jobs that wait for others to end. What counts is the other's terminal state on disk, and it counts
// once it is in the record of the job that waits: from then on the other may be forgotten. One that can never be had
// cancels the job that waits for it, which is an end like any other, so a whole chain goes.
//
// The Scheduler knows which jobs wait for which and tells; the Job that waits writes. A word that is lost with a
// leader, or with an actor, is said again when the job that waits gets another actor.

// await has a job told of those that it waits for: at once of what has ended, and of the others when they do.
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

// conclude tells all that wait for a job how it has ended.
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

// onFollowed takes what the store says of a job that is over and that another waits for. One that the store has
// forgotten has ended, and nobody knows how.
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

// living are the jobs that a spec names and that have not ended.
func (s *jobTable) living(spec *messages.JobSpec) (all []*messages.After) {
	for _, a := range spec.GetAfter() {
		if p := s.jobs[topology.JobID(a.Job)]; p != nil && p.concluded == messages.JobState_JOB_STATE_UNSPECIFIED {
			all = append(all, a)
		}
	}
	return all
}

// seek looks up the jobs that a fresh one is to run after; its record is written when all are known.
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

// onSought goes on with a submit, with what the store knows of a job that it is to run after.
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
	case s.jobs[m.Query.Job] != nil: // it had no actor when it was looked for
		s.seek(ctx, e)
	default:
		no(messages.Code_CODE_UNAVAILABLE, "job "+id+" is not ready", "try again with the same request ID")
	}
}
