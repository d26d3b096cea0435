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

// This file owns how a start guarantee gets to disk and back. The planner makes it, the Job writes it, and the next
// leader's planner has it before its first pass. It is written if its nodes change or if one more overrun must be
// counted. It is not written if only its latest start becomes earlier, because the next leader computes that again.
// Without a change there is no write.
//
// The Job reports when its record contains the requested guarantee. Until then the planner also keeps the nodes of the
// earlier one reserved.
//
// The leader honors a guarantee at once: nodes are reserved, and no backfill may break it. That only delays other jobs.
// If the leader dies before the write is on disk, they waited in vain, but nothing was published. Irreversible effects
// require the guarantee on disk: publishing a latest start, or preempting a job.

// tellFirm makes jobs write the changes of their start guarantees.
func (s *promises) tellFirm(ctx actor.Context, firm []policy.Firm) {
	for i := range firm {
		e := s.jobs[firm[i].Job]
		if e == nil || e.pid == nil || e.remakes {
			continue // a job that is being recreated gets it later
		}
		s.setPromise(ctx, e, s.toPromise(e, &firm[i]))
		ctx.Send(e.pid, protocol.Promised{Promise: e.promise})
	}
}

// toPromise returns a start guarantee as a record, or nil if there is none.
func (s *promises) toPromise(e *livingJob, f *policy.Firm) *messages.Promise {
	if len(f.Where.Slots) == 0 {
		return nil
	}
	p := &messages.Promise{
		Pool: f.Pool, Order: f.Order, Slips: int32(f.Slips), Run: e.runs + 1, Told: s.firstTold(e, f.FirstEstimate),
		Victims: toVictims(f.Stops), OnLoan: f.OnLoan,
	}
	if f.Left < topology.Never {
		p.LeftMs = max(actors.Instant(f.Left).Since(0).Milliseconds(), 1)
	}
	for _, slot := range f.Where.Slots {
		p.Kept = append(p.Kept, &messages.Kept{
			Rank: int32(slot.Rank), Node: string(slot.Node), MachineId: s.machines[slot.Node].record.GetMachineId(),
			Amount: messages.ToResources(slot.Amount),
		})
	}
	return p
}

// firstTold returns the first estimate of a job, counted from a time of day. It is for display only.
func (s *jobTable) firstTold(e *livingJob, t policy.Foretold) *messages.Told {
	switch {
	case t.Made == 0:
		return nil
	case t.Made < 0 || e.promise.GetTold() != nil:
		return e.promise.GetTold()
	}
	made := actors.Instant(t.Made)
	told := &messages.Told{
		ToldUnixMs: s.p.Clock.WallMs() - s.p.Clock.Now().Since(made).Milliseconds(),
		ExpectedMs: actors.Instant(t.At).Since(made).Milliseconds(),
	}
	if t.Bound < topology.Never {
		told.BoundMs = actors.Instant(t.Bound).Since(made).Milliseconds()
	}
	return told
}

// inherit passes the guarantee on disk to the planner when a job's actor is created. It ignores a guarantee for a run
// that an earlier version started, or on machines that were replaced.
func (s *promises) inherit(ctx actor.Context, e *livingJob, rec *messages.JobRecord) {
	if rec.State != messages.JobState_JOB_STATE_QUEUED {
		s.remembers(func(p policy.Rememberer) { p.Committed(e.id) })
		return
	}
	s.setPromise(ctx, e, rec.Promise)
	e.written, e.runs = rec.Promise, rec.Runs
	p := rec.Promise
	f := policy.Firm{
		Job: e.id, Pool: p.GetPool(), Order: p.GetOrder(), Slips: int(p.GetSlips()), Left: topology.Never,
		Stops: fromVictims(p.GetVictims()), OnLoan: p.GetOnLoan(),
		Owner: rec.GetOwner().Known(), Queue: rec.Spec.GetQueue(), Fixed: rec.Spec.GetNotPreemptible(),
	}
	if ms := p.GetLeftMs(); ms > 0 {
		f.Left = int64(actors.Millis(ms))
	}
	if p.GetRun() == rec.Runs+1 && rec.Hold == nil && rec.Cancel == nil && s.sameMachines(p) {
		for _, k := range p.Kept {
			f.Where.Slots = append(f.Where.Slots, topology.Slot{
				Rank: topology.Rank(k.Rank), Node: topology.NodeID(k.Node), Amount: messages.FromResources(k.Amount),
			})
		}
	}
	goesOn := false
	s.remembers(func(p policy.Rememberer) { goesOn = p.Inherit(&f, int64(s.p.Clock.Now())) })
	if e.promise != nil && !goesOn {
		s.setPromise(ctx, e, nil)
		ctx.Send(e.pid, protocol.Promised{})
	}
}

// sameMachines reports whether the machines of a guarantee are still the same.
func (s *promises) sameMachines(p *messages.Promise) bool {
	return !slices.ContainsFunc(p.Kept, func(k *messages.Kept) bool {
		m := s.machines[topology.NodeID(k.Node)]
		return m == nil || m.record.GetRemoved() != nil || m.record.GetMachineId() != k.MachineId
	})
}

// onPromiseWritten releases the nodes of the earlier guarantee, unless the one on disk is not the last one requested.
func (s *promises) onPromiseWritten(ctx actor.Context, m protocol.PromiseWritten) {
	e := s.jobs[m.Job]
	if e == nil {
		return
	}
	if e.written = m.Promise; e.promise != m.Asked {
		return
	}
	s.stopVictims(ctx)
	s.remembers(func(p policy.Rememberer) {
		if p.Written(m.Job) {
			s.plan(ctx)
		}
	})
}

func (s *promises) onRedeemed(ctx actor.Context, m protocol.Redeemed) {
	if e := s.jobs[m.Job]; e != nil {
		s.setPromise(ctx, e, nil)
		s.remembers(func(p policy.Rememberer) { p.Committed(m.Job) })
		s.plan(ctx) // the next guarantee may have waited for this one
	}
}

// The rest of this file owns preemption. The planner chooses the victims (policy/preempting.go) as a part of a start
// guarantee, which names each attempt by its token. When the guarantee is on disk with the waiting job, and not before,
// the Scheduler notifies the victims' Jobs. Each Job ends its attempt with a separate cause, and stops it when the end
// is on disk, like any other end. Nodes need no new messages. The next leader finds the victims in the record and
// continues with them. If the guarantee is given up, victims that have not ended are spared.

// victimOf is the job for which an attempt was told to stop.
type victimOf struct {
	token topology.Token
	job   topology.JobID
}

// setPromise records a job's guarantee. Victims of the earlier guarantee that are not in this one are spared.
func (s *promises) setPromise(ctx actor.Context, e *livingJob, p *messages.Promise) {
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

// names reports whether a guarantee has this victim.
func names(p *messages.Promise, v *messages.Victim) bool {
	return slices.ContainsFunc(p.GetVictims(), func(o *messages.Victim) bool {
		return messages.FromToken(o.Token) == messages.FromToken(v.Token)
	})
}

// spare notifies a victim that it need not stop for a job.
func (s *promises) spare(ctx actor.Context, e *livingJob, v *messages.Victim) {
	w, token := s.jobs[topology.JobID(v.Job)], messages.FromToken(v.Token)
	if w == nil || w.stopped != (victimOf{token, e.id}) {
		return
	}
	w.stopped = victimOf{}
	if w.pid != nil && !w.remakes {
		ctx.Send(w.pid, protocol.Spared{Token: token, For: e.id})
	}
}

// stopVictims notifies the victims of waiting jobs, each once. It runs after a pass, which has already started the jobs
// that fit without preemption.
func (s *promises) stopVictims(ctx actor.Context) {
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

func (s *promises) stopVictim(ctx actor.Context, e *livingJob, v *messages.Victim) {
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

// Running returns what is known of a job's latest attempt on reachable nodes (policy.Stopper).
func (x ends) Running(job topology.JobID, nowNs int64) (preempt.Running, bool) {
	s := x.s
	e := s.jobs[job]
	if e == nil || e.run == nil {
		return preempt.Running{}, false
	}
	r := e.run
	run := preempt.Running{
		Token: r.token, Priority: r.spec.GetPriority(), Prepared: int64(r.prepared), Ends: r.isOver(),
		Checkpoint: int64(actors.Millis(r.spec.GetCheckpointMs())), Grace: int64(untilPreempted(r.spec, &s.p.Constants)),
		Limit: int64(actors.Millis(r.spec.GetTimeLimitMs())), Had: int64(e.had),
		Fixed: r.spec.GetNotPreemptible(), Times: int(e.outranked.times), Rested: topology.Never,
	}
	if r.began != 0 {
		run.Ran = max(nowNs-int64(r.began), 0)
	}
	if r.began != 0 && r.saved > r.began {
		run.Saved = int64(r.saved) - int64(r.began)
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

// outranked is how often a job was preempted for another job of its queue, and when it last was. No clock survives a
// leader, so a new leader counts the time from when it read the record.
type outranked struct {
	times int32
	at    actors.Instant
}

func (s *jobTable) noteOutranked(e *livingJob, times int32) {
	if times > e.outranked.times {
		e.outranked = outranked{times, s.p.Clock.Now()}
	}
}

// toVictims returns victims as records.
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
