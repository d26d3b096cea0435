package scheduler

import (
	"container/heap"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns what a planner that looks ahead asks of the ends of what runs (policy.Ends). Beside the view stands a
// horizon, and before each pass it is brought up to date where a machine or an attempt has changed. With a planner that
// asks for nothing there is none, and noting a change costs nothing.

// foresight is the horizon, and where it is behind what is known.
type foresight struct {
	horizon  *topology.Horizon // nil: nobody has asked for it
	stale    []*machine        // what ends there has changed
	expected expectations
	admitted map[topology.NodeID][]topology.End // by the pass that goes on, of which no machine's room knows yet
}

// expectations is a heap of attempts, with the one that is expected to be over first on top. Each knows its place.
type expectations []*run

func (x expectations) Len() int           { return len(x) }
func (x expectations) Less(a, b int) bool { return x[a].stay.Likely < x[b].stay.Likely }
func (x expectations) Swap(a, b int) {
	x[a], x[b] = x[b], x[a]
	x[a].place, x[b].place = a+1, b+1
}
func (x *expectations) Push(one any) {
	*x = append(*x, one.(*run))
	one.(*run).place = len(*x)
}
func (x *expectations) Pop() any {
	last := len(*x) - 1
	r := (*x)[last]
	(*x)[last], r.place = nil, 0
	*x = (*x)[:last]
	return r
}

// expect puts an attempt where its expected end belongs, or takes it out that is over or has none.
func (x *expectations) expect(r *run) {
	switch goes := r.over == 0 && r.stay.Likely < topology.Never; {
	case goes && r.place > 0:
		heap.Fix(x, r.place-1)
	case goes:
		heap.Push(x, r)
	case r.place > 0:
		heap.Remove(x, r.place-1)
	}
}

// endsChanged notes that what ends on a machine has changed.
func (s *Scheduler) endsChanged(m *machine) {
	if f := &s.foresight; f.horizon != nil && m != nil && !m.endsStale {
		m.endsStale = true
		f.stale = append(f.stale, m)
	}
}

// endChanged notes that the end of a job's attempt has.
func (s *Scheduler) endChanged(e *livingJob) {
	f, r := &s.foresight, e.run
	if f.horizon == nil {
		return
	}
	for _, n := range r.nodes {
		s.endsChanged(s.machines[n])
	}
	f.expected.expect(r)
}

// dropRun forgets a job's latest attempt, of which nobody will say how it ended.
func (s *Scheduler) dropRun(e *livingJob) {
	s.countOut(e.run, nil)
	if r := e.run; r != nil && r.place > 0 {
		heap.Remove(&s.foresight.expected, r.place-1)
	}
	e.run = nil
}

// remembers tells a planner that goes by it what came of a job's latest attempt.
func (s *Scheduler) remembers(tell func(policy.Rememberer)) {
	if p, is := s.planner.(policy.Rememberer); is {
		tell(p)
	}
}

// ends answers a planner (policy.Ends). It stands beside the Scheduler and not on it, whose methods are its mail.
type ends struct{ s *Scheduler }

// Horizon is what is known now. What has run for longer than was expected is expected to end later.
func (x ends) Horizon(view *topology.Fabric, nowNs int64) *topology.Horizon {
	s := x.s
	f := &s.foresight
	if f.horizon == nil {
		f.horizon, f.admitted = topology.NewHorizon(view), map[topology.NodeID][]topology.End{}
		for _, m := range s.machines { //order: each is set by itself
			s.endsChanged(m)
		}
		for _, e := range s.jobs { //order: a heap
			if e.run != nil {
				s.endChanged(e)
			}
		}
	}
	for len(f.expected) > 0 && f.expected[0].stay.Likely <= nowNs {
		r := f.expected[0]
		s.foresee(r.of)
		r.stay.Likely = max(r.stay.Likely, nowNs+1) // and it is looked at again, later
		s.endChanged(r.of)
	}
	for _, m := range f.stale {
		m.endsStale = false
		f.horizon.Set(m.id, m.room.Ends())
		f.horizon.Benched(m.id, m.benchEnds())
	}
	clear(f.stale)
	f.stale = f.stale[:0]
	return f.horizon
}

// Admitted notes what the pass that goes on has started: until it is over, no machine's room has it.
func (x ends) Admitted(a *policy.Admission, nowNs int64) {
	s := x.s
	e, c, stay := s.jobs[a.Job], &s.p.Constants, belief.Stay{}
	stay.Hard = freeAfter(s.startsBy(e.spec, actors.Instant(nowNs), a.StartBy), e.spec, c)
	stay.Likely = min(nowNs+a.Estimate, stay.Hard)
	f := &s.foresight
	for i := range a.Placement.Slots {
		slot := &a.Placement.Slots[i]
		end := topology.End{Amount: slot.Amount, Hard: stay.Hard, Likely: stay.Likely, Of: a.Job}
		f.admitted[slot.Node] = append(f.admitted[slot.Node], end)
		// A machine's slots follow each other.
		if i == len(a.Placement.Slots)-1 || a.Placement.Slots[i+1].Node != slot.Node {
			m := s.machines[slot.Node]
			f.horizon.Set(slot.Node, append(m.room.Ends(), f.admitted[slot.Node]...))
		}
	}
}

// Runs reports whether something may be left of a job's latest attempt.
func (x ends) Runs(job topology.JobID) bool {
	e := x.s.jobs[job]
	if e == nil || e.run == nil {
		return false
	}
	for _, n := range e.run.nodes {
		if m := x.s.machines[n]; m != nil && m.room.Tenant(e.run.token) != nil {
			return true
		}
	}
	return false
}

// Held are the amounts that its latest attempt keeps from others on one machine.
func (x ends) Held(job topology.JobID, node topology.NodeID) []topology.Resources {
	e, m := x.s.jobs[job], x.s.machines[node]
	if e == nil || e.run == nil || m == nil {
		return nil
	}
	return m.room.Held(e.run.token)
}

// Unheard reports whether an attempt on one of these machines was begun by an earlier leader, has a time limit, and has
// yet to say how much of that is spent. One that has not begun says so by then, at the latest.
func (x ends) Unheard(p topology.Placement) bool {
	for i := range p.Slots {
		m := x.s.machines[p.Slots[i].Node]
		if m == nil || i > 0 && p.Slots[i-1].Node == p.Slots[i].Node {
			continue
		}
		for _, t := range m.room.Tenants() {
			e := x.s.jobs[t.Job]
			if e == nil || e.run == nil || e.run.token != t.Token || t.Token.Epoch == x.s.p.Epoch {
				continue
			}
			if r := e.run; r.began == 0 && r.over == 0 && r.spec.GetTimeLimitMs() > 0 {
				return true
			}
		}
	}
	return false
}

// Endless is a job on one of these machines of which nobody can say when it ends.
func (x ends) Endless(p topology.Placement) topology.JobID {
	for i := range p.Slots {
		m := x.s.machines[p.Slots[i].Node]
		if m == nil || i > 0 && p.Slots[i-1].Node == p.Slots[i].Node {
			continue
		}
		for _, t := range m.room.Tenants() {
			if t.Stay == nil || t.Stay.Hard == topology.Never {
				return t.Job
			}
		}
	}
	return ""
}
