package scheduler

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the Scheduler's queries to the store about single jobs: the reason of each, and the function that
// continues with the answer.

// find is the reason of a query for a job.
type find struct {
	job      topology.JobID  // to recreate its actor
	submit   *livingJob      // its request was used before: find its job
	orphan   *orphan         // a node has an attempt of it without an actor here
	sought   *livingJob      // a new job depends on it
	follower topology.JobID  // this job waits for its end
	unborn   topology.JobID  // with follower: the element of the queried array that is meant
	element  *livingJob      // it was a job before
	probed   *protocol.Probe // an element that its array asks about
}

func (s *storeQueries) ask(why find, q actors.Query) {
	s.tickets++
	q.Ticket = s.tickets
	s.finds[q.Ticket] = why
	s.p.Store.Find(q, s.self)
}

// askAgain is the timer that repeats a failed query.
type askAgain struct {
	Why   find
	Query actors.Query
}

// askLater repeats a query after a pause, because an unavailable store answers each query at once.
func (s *base) askLater(why find, q actors.Query) {
	s.p.Clock.After(s.p.Constants.JournalRetry, s.self, askAgain{why, q})
}

func (s *Scheduler) onFound(ctx actor.Context, m actors.Found) {
	why, ok := s.finds[m.Query.Ticket]
	if !ok {
		return
	}
	delete(s.finds, m.Query.Ticket)
	switch {
	case why.orphan != nil:
		s.judgeOrphan(ctx, *why.orphan, m)
	case why.probed != nil:
		s.onProbed(ctx, *why.probed, m)
	case why.element != nil:
		s.onElementFound(ctx, why.element, m)
	case why.submit != nil:
		s.answerRepeated(ctx, why.submit, m)
	case why.sought != nil:
		s.onSought(ctx, why.sought, m)
	case why.follower != "":
		s.onFollowed(ctx, why, m)
	case m.Err != "":
		s.later(ctx, s.jobs[why.job])
	case m.Damaged != "":
		s.breakDown(ctx, s.jobs[why.job], m.Damaged)
	case m.Job == nil:
		s.vanished("job " + string(why.job))
	default:
		e := s.jobs[why.job]
		e.remakes = false
		s.hearEnd(ctx, e, m.Attempts)
		s.embody(ctx, e, m.Job, m.Attempts)
		s.await(ctx, e, m.Job)
		s.tellElements(ctx, m.Job.Id)
		s.resight(ctx, e)
		s.stopVictims(ctx)
	}
}

// tenantsOf returns the jobs that have or may have tasks on the node, each once.
func (s *jobTable) tenantsOf(m *machine) []*livingJob {
	var all []*livingJob
	seen := map[topology.JobID]bool{}
	for _, t := range m.room.Tenants() {
		if e := s.jobs[t.Job]; e != nil && e.pid != nil && !e.remakes && !t.Spare && !seen[t.Job] {
			seen[t.Job] = true
			all = append(all, e)
		}
	}
	return all
}

// The rest of this file owns the answers to requests for a job without an actor.

// noJob returns why a request cannot be passed to a Job. Before the store is read, and while a job's actor is
// recreated, the answer makes no statement about the job.
func (s *planning) noJob(id string) *messages.Outcome {
	if s.states.In(schedulerLoading) || s.jobs[topology.JobID(id)] != nil {
		return &messages.Outcome{
			Code: messages.Code_CODE_UNAVAILABLE, Text: "this leader has just taken over and is not ready",
			Hint: "try again in a few seconds",
		}
	}
	if d := s.damaged[topology.JobID(id)]; d != nil {
		return &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "job", Text: damageOf(d.Damaged),
			Hint: "no other change is possible",
		}
	}
	return noSuchJob(id)
}

func noSuchJob(id string) *messages.Outcome {
	return &messages.Outcome{
		Code: messages.Code_CODE_NOT_FOUND, Field: "job", Text: fmt.Sprintf("no waiting or running job %q", id),
		Hint: "run `synapse-cli get jobs` for a list; ended jobs cannot be changed",
	}
}
