package scheduler

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/topology"
)

// This file owns the way of a preemption. The planner chooses whom to stop (policy/preempting.go) as a part of a firm
// promise, which names each attempt by its token. Once that is on disk with the waiting job, and not before, the
// Scheduler tells the victims' Jobs; each ends its attempt by a cause of its own, and stops it when that is on disk, as
// with any other end. So machines learn nothing new, and a next leader finds the set in the record and goes on with the
// same one. Where the promise is given up, whoever has not ended yet is told to go on.

// victimOf is for whom an attempt of a job was told to stop.
type victimOf struct {
	token topology.Token
	job   topology.JobID
}

// setPromise notes what a job is promised. Who is stopped for what it was promised before, and not for this, is spared.
func (s *Scheduler) setPromise(ctx actor.Context, e *livingJob, p *messages.Promise) {
	for _, v := range e.promise.GetVictims() {
		if !names(p, v) {
			s.spare(ctx, e, v)
		}
	}
	if e.promise = p; len(p.GetVictims()) > 0 {
		s.preempters[e.id] = e
	} else {
		delete(s.preempters, e.id)
	}
}

// names reports whether a promise has this victim.
func names(p *messages.Promise, v *messages.Victim) bool {
	return slices.ContainsFunc(p.GetVictims(), func(o *messages.Victim) bool {
		return messages.FromToken(o.Token) == messages.FromToken(v.Token)
	})
}

// spare tells a victim that it need not be stopped for a job.
func (s *Scheduler) spare(ctx actor.Context, e *livingJob, v *messages.Victim) {
	w, token := s.jobs[topology.JobID(v.Job)], messages.FromToken(v.Token)
	if w == nil || w.stopped != (victimOf{token, e.id}) {
		return
	}
	w.stopped = victimOf{}
	if w.pid != nil && !w.remakes {
		ctx.Send(w.pid, protocol.Spared{Token: token, For: e.id})
	}
}

// stopVictims tells those to stop who are stopped for jobs that wait, each once. It comes after a pass: a job that
// could start without that has been started by then.
func (s *Scheduler) stopVictims(ctx actor.Context) {
	if len(s.preempters) == 0 || !s.states.In(schedulerLeading) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.preempters)) {
		e := s.preempters[id]
		if _, waits := s.queue.Get(id); !waits {
			continue
		}
		for _, v := range e.promise.GetVictims() {
			if names(e.written, v) {
				s.stopVictim(ctx, e, v)
			}
		}
	}
}

func (s *Scheduler) stopVictim(ctx actor.Context, e *livingJob, v *messages.Victim) {
	w, token := s.jobs[topology.JobID(v.Job)], messages.FromToken(v.Token)
	if w == nil || w.pid == nil || w.remakes || w.run == nil || w.run.token != token || w.run.isOver() ||
		w.stopped == (victimOf{token, e.id}) {
		return
	}
	w.stopped = victimOf{token, e.id}
	ctx.Send(w.pid, protocol.Preempt{Token: token, For: &messages.Preemption{
		ForJob: string(e.id), Rule: v.Rule, LostMilliGpuSeconds: v.LostMilliGpuSeconds,
	}})
	if p, is := s.planner.(policy.Preempter); is {
		p.Stopped(e.id, token)
	}
}

// isOver reports whether the attempt's end is on disk.
func (r *run) isOver() bool { return r.over != 0 || r.ended }

// Running is what is known of a job's latest attempt on machines that can be reached (policy.Stopper).
func (x ends) Running(job topology.JobID, nowNs int64) (preempt.Running, bool) {
	s := x.s
	e := s.jobs[job]
	if e == nil || e.run == nil {
		return preempt.Running{}, false
	}
	r := e.run
	run := preempt.Running{
		Token: r.token, Priority: r.spec.GetPriority(), Prepared: int64(r.prepared), Ends: r.isOver(),
		Checkpoint: int64(actors.Millis(r.spec.GetCheckpointMs())), Grace: int64(actors.GraceOf(r.spec, s.p.Constants)),
		Limit: int64(actors.Millis(r.spec.GetTimeLimitMs())), Had: int64(e.had),
		Fixed: r.spec.GetNotPreemptible(), Times: int(e.outranked.times), Rested: topology.Never,
	}
	if r.began != 0 {
		run.Ran = max(nowNs-int64(r.began), 0)
	}
	if e.outranked.times > 0 {
		run.Rested = nowNs - int64(e.outranked.at)
	}
	for _, n := range r.nodes {
		m := s.machines[n]
		if m == nil || !m.up {
			continue
		}
		for _, a := range m.room.Held(r.token) {
			run.Room.Slots = append(run.Room.Slots, topology.Slot{Node: n, Amount: a})
		}
	}
	return run, len(run.Room.Slots) > 0
}

// outranked is how often a job was stopped for another of its queue, and when it was last. For the time no clock
// outlives a leader: a new one counts from when it found that in the record.
type outranked struct {
	times int32
	at    actors.Instant
}

func (s *Scheduler) noteOutranked(e *livingJob, times int32) {
	if times > e.outranked.times {
		e.outranked = outranked{times, s.p.Clock.Now()}
	}
}

// toVictims are victims as they are written.
func toVictims(all []preempt.Victim) (written []*messages.Victim) {
	for _, v := range all {
		written = append(written, &messages.Victim{
			Job: string(v.Job), Token: messages.ToToken(v.Token), Rule: messages.PreemptionRule(v.Rule),
			LostMilliGpuSeconds: v.Lost,
		})
	}
	return written
}

func fromVictims(written []*messages.Victim) (all []preempt.Victim) {
	for _, v := range written {
		all = append(all, preempt.Victim{
			Job: topology.JobID(v.Job), Token: messages.FromToken(v.Token), Rule: preempt.Rule(v.Rule),
			Lost: v.LostMilliGpuSeconds,
		})
	}
	return all
}
