package scheduler

import (
	"fmt"
	"maps"
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

// await reports the ended and started dependencies of a job to its actor at once, and the others later.
func (s *Scheduler) await(ctx actor.Context, e *livingJob, rec *messages.JobRecord) {
	for _, a := range rec.Awaits() {
		id := topology.JobID(a.Job)
		switch p := s.jobs[id]; {
		case p != nil && p.concluded != messages.JobState_JOB_STATE_UNSPECIFIED:
			tellFact(ctx, e, a.Job, p.concluded, p.since)
		case p != nil || s.damaged[id] != nil:
			s.follow(id, e.id)
			if p != nil && p.since > 0 {
				tellFact(ctx, e, a.Job, messages.JobState_JOB_STATE_ACTIVE, p.since)
			}
		default:
			s.ask(find{follower: e.id}, actors.Query{Job: id})
		}
	}
}

// tellFact reports the start or the end of an earlier job to the actor of a job that depends on it.
func tellFact(ctx actor.Context, to *livingJob, job string, state messages.JobState, since int64) {
	ctx.Send(to.pid, protocol.Foregone{Known: &messages.AfterKnown{Job: job, State: state, SinceUnixMs: since}})
}

// follow notes that a job waits for another one. It returns false if that was noted before.
func (s *jobTable) follow(id, follower topology.JobID) bool {
	if slices.Contains(s.followers[id], follower) {
		return false
	}
	s.followers[id] = append(s.followers[id], follower)
	return true
}

// onHasStarted reports the start of a job to all jobs that wait for it. They may also wait for its end.
func (s *Scheduler) onHasStarted(ctx actor.Context, m protocol.HasStarted) {
	e := s.jobs[m.Job]
	if e == nil || e.concluded != messages.JobState_JOB_STATE_UNSPECIFIED {
		return
	}
	e.since = m.AtUnixMs
	s.tellFollowers(ctx, m.Job, messages.JobState_JOB_STATE_ACTIVE, m.AtUnixMs)
}

func (s *jobTable) tellFollowers(ctx actor.Context, job topology.JobID, state messages.JobState, since int64) {
	for _, id := range s.followers[job] {
		if e := s.jobs[id]; e != nil && e.pid != nil {
			tellFact(ctx, e, string(job), state, since)
		}
	}
}

// conclude reports a job's final state to all jobs that wait for it.
func (s *Scheduler) conclude(ctx actor.Context, job topology.JobID, state messages.JobState, since int64) {
	e := s.jobs[job]
	if e != nil {
		e.concluded, e.since = state, since
		s.tellArray(ctx, e)
		s.leavesPlace(ctx, e)
	}
	s.tellFollowers(ctx, job, state, since)
	delete(s.followers, job)
	s.concludeUnborn(string(job))
}

// concludeUnborn asks the store how the elements of a finished array ended that never became jobs and that other jobs
// wait for.
func (s *Scheduler) concludeUnborn(array string) {
	for _, id := range slices.Sorted(maps.Keys(s.followers)) {
		if of, _, is := messages.ArrayOf(string(id)); !is || of != array || s.jobs[id] != nil || s.damaged[id] != nil {
			continue
		}
		for _, follower := range s.followers[id] {
			s.ask(find{follower: follower}, actors.Query{Job: id})
		}
		delete(s.followers, id)
	}
}

// onFollowed handles the store's answer about a finished job that another job waits for. If the record was deleted, the
// job has ended with an unknown result.
func (s *Scheduler) onFollowed(ctx actor.Context, why find, m actors.Found) {
	e := s.jobs[why.follower]
	switch {
	case e == nil || e.pid == nil:
	case m.Err != "":
		s.askLater(why, m.Query)
	case why.unborn != "":
		_, index, _ := messages.ArrayOf(string(why.unborn))
		state, _ := m.Job.GetArray().EndedAt(m.Job.GetSpec().GetArray().Place(index))
		tellFact(ctx, e, string(why.unborn), state, m.Job.Since())
	case m.Job == nil && m.Damaged == "" && !m.Pruned && s.unborn(ctx, e, why, m.Query):
	case m.Damaged != "" || m.Job == nil || m.Job.State.Terminal():
		tellFact(ctx, e, string(m.Query.Job), m.Job.GetState(), m.Job.Since())
	default: // it became a job when the question was on its way
		s.await(ctx, e, e.rec)
	}
}

// unborn handles an element that is no job yet, and that another job waits for. It asks the store once more after it
// has noted the wait, because the element may have become a job in the meantime. If the array has finished, its record
// has the end of the element.
func (s *Scheduler) unborn(ctx actor.Context, e *livingJob, why find, q actors.Query) bool {
	name, _, is := messages.ArrayOf(string(q.Job))
	if !is {
		return false
	}
	array := topology.JobID(name)
	a := s.jobs[array]
	waits := s.damaged[array] != nil || a != nil && a.concluded == messages.JobState_JOB_STATE_UNSPECIFIED
	switch {
	case s.jobs[q.Job] != nil:
		s.await(ctx, e, e.rec)
	case !waits:
		s.ask(find{follower: e.id, unborn: q.Job}, actors.Query{Job: array})
	case s.follow(q.Job, e.id):
		s.ask(why, q)
	}
	return true
}

// living returns the jobs that a spec depends on and that have not ended.
func (s *jobTable) living(spec *messages.JobSpec) (all []*messages.After) {
	for _, a := range spec.GetAfter() {
		p := s.jobs[topology.JobID(a.Job)]
		if p != nil && p.concluded == messages.JobState_JOB_STATE_UNSPECIFIED &&
			(a.End != messages.AfterEnd_AFTER_END_STARTED || p.since == 0) {
			all = append(all, a)
		}
	}
	return all
}

// seek looks up the jobs that a new job depends on. The new job's record is written when all are known.
func (s *Scheduler) seek(ctx actor.Context, e *livingJob) {
	for _, a := range e.rec.Unmet() {
		id := topology.JobID(a.Job)
		p := s.jobs[id]
		if (p == nil || p.pid == nil) && !slices.Contains(e.sought, id) {
			s.ask(find{sought: e}, actors.Query{Job: id})
			return
		}
		over := p != nil && p.concluded != messages.JobState_JOB_STATE_UNSPECIFIED
		if p != nil && p.pid != nil && !s.suits(ctx, e, a, p.rec, over) {
			return
		}
	}
	ctx.Request(s.peers.Journal, protocol.Write{Lane: protocol.LaneSubmits, Change: actors.Change{Job: e.rec}, Tag: e})
}

// suits refuses a dependency on a kind of job for which it has no meaning.
func (s *Scheduler) suits(ctx actor.Context, e *livingJob, a *messages.After, of *messages.JobRecord, over bool) bool {
	no := func(text, hint string) bool {
		s.drop(ctx, e, intake.Reply("", messages.Code_CODE_INVALID, "spec.after", text, hint))
		return false
	}
	array := of.GetSpec().GetArray()
	switch {
	case a.End == messages.AfterEnd_AFTER_END_STARTED && array != nil && !over:
		return no("job "+a.Job+" is an array, which has no single start", "name an element, or use any")
	case a.End != messages.AfterEnd_AFTER_END_ELEMENT:
		return true
	case array == nil:
		return no("job "+a.Job+" is no array, so it has no elements", "use ok")
	}
	for place := range e.rec.Spec.Array.Len() {
		if index := e.rec.Spec.Array.Index(place); array.Place(index) < 0 {
			return no(fmt.Sprintf("array %s has no element %d", a.Job, index), "use the indices of that array")
		}
	}
	return true
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
		s.hasEnded(ctx, e, m.Job)
	case s.jobs[m.Query.Job] != nil: // it had no actor when the question was sent
		s.seek(ctx, e)
	default:
		no(messages.Code_CODE_UNAVAILABLE, "job "+id+" is not ready", "try again with the same request ID")
	}
}

// hasEnded continues a submit after a dependency that has ended before. The elements of an array wait for the ended
// elements of another one by their own records.
func (s *Scheduler) hasEnded(ctx actor.Context, e *livingJob, of *messages.JobRecord) {
	e.sought = append(e.sought, topology.JobID(of.Id))
	for _, a := range e.rec.Spec.GetAfter() {
		switch {
		case a.Job != of.Id:
		case !s.suits(ctx, e, a, of, true):
			return
		case a.End != messages.AfterEnd_AFTER_END_ELEMENT:
			e.rec.AfterKnown = append(e.rec.AfterKnown, &messages.AfterKnown{
				Job: of.Id, State: of.State, SinceUnixMs: of.Since(),
			})
		}
	}
	s.seek(ctx, e)
}
