package scheduler

import (
	"container/heap"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns the ends of running jobs for a planner that looks ahead (policy.Ends). A horizon supplements the view.
// Before each pass, it is updated for the nodes and attempts that have changed. A planner without lookahead needs no
// horizon, and recording a change then costs nothing.

// foresight holds the horizon and the changes that it does not include yet.
type foresight struct {
	horizon  *topology.Horizon // nil: no planner has asked for it
	stale    []*machine        // nodes whose ends have changed
	expected expectations
	admitted map[topology.NodeID][]topology.End // by the present pass; the nodes' rooms do not include them yet
}

// expectations is a heap of attempts with the earliest expected end on top. Each attempt knows its index.
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

// expect moves an attempt to the position of its expected end. It removes an attempt that has ended or has no expected
// end.
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

// endsChanged records that ends on a node have changed.
func (s *lookahead) endsChanged(m *machine) {
	if f := &s.foresight; f.horizon != nil && m != nil && !m.endsStale {
		m.endsStale = true
		f.stale = append(f.stale, m)
	}
}

// endChanged records that the end of a job's attempt has changed.
func (s *lookahead) endChanged(e *livingJob) {
	f, r := &s.foresight, e.run
	if f.horizon == nil {
		return
	}
	for _, n := range r.nodes {
		s.endsChanged(s.machines[n])
	}
	for i := range r.spares {
		s.endsChanged(s.machines[r.spares[i].node])
	}
	f.expected.expect(r)
}

// dropRun removes a job's latest attempt whose end no actor will report.
func (s *lookahead) dropRun(ctx actor.Context, e *livingJob) {
	s.countOut(e.run, nil)
	s.freeSpares(ctx, e.run)
	if r := e.run; r != nil && r.place > 0 {
		heap.Remove(&s.foresight.expected, r.place-1)
	}
	e.run = nil
}

// remembers notifies a planner that uses it of the result of a job's latest attempt.
func (s *planning) remembers(tell func(policy.Rememberer)) {
	if p, is := s.planner.(policy.Rememberer); is {
		tell(p)
	}
}

// ends answers a planner (policy.Ends). It is a separate type, because the Scheduler's methods are its message
// handlers.
type ends struct{ s *lookahead }

// Horizon returns when capacity becomes free, as known now. A job that has run longer than expected is expected to end
// later.
func (x ends) Horizon(view *topology.Tree, nowNs int64) *topology.Horizon {
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
		r.stay.Likely = max(r.stay.Likely, nowNs+1) // checked again later
		s.endChanged(r.of)
	}
	for _, m := range f.stale {
		m.endsStale = false
		f.horizon.Set(m.id, m.room.Ends())
		f.horizon.BackedOff(m.id, m.backOffEnds())
	}
	clear(f.stale)
	f.stale = f.stale[:0]
	return f.horizon
}

// Admitted records an admission of the present pass, because the nodes' rooms include it only after the pass.
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
		// The slots of a node are adjacent.
		if i == len(a.Placement.Slots)-1 || a.Placement.Slots[i+1].Node != slot.Node {
			m := s.machines[slot.Node]
			f.horizon.Set(slot.Node, append(m.room.Ends(), f.admitted[slot.Node]...))
		}
	}
}

// Runs reports whether a part of a job's latest attempt may still exist.
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

// Held returns the amounts that a job's latest attempt occupies on one node.
func (x ends) Held(job topology.JobID, node topology.NodeID) []topology.Resources {
	e, m := x.s.jobs[job], x.s.machines[node]
	if e == nil || e.run == nil || m == nil {
		return nil
	}
	return m.room.Held(e.run.token)
}

// Unheard reports whether one of these nodes has an attempt of an earlier leader with a time limit and an unknown run
// time. An attempt that has not started reports that as well.
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

// Endless returns a job on one of these nodes whose end is unknown.
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

// The rest of this file owns when the capacity of an attempt becomes free: the latest time by its time limit, and the
// expected time by the statistics. It is the only place that computes both. The Job reports the inputs: the time of the
// barrier and the time limit. After a takeover, the time of the barrier comes from the nodes' clocks (job/times.go).
// Users may change the time limit. All times use this process's steady clock. None of them ends an attempt.

// endMargin is how long after its end an attempt's capacity may stay occupied. Stop may be repeated, evidence must
// arrive, and the leader must handle it.
const endMargin = 20 * time.Second

// run is an attempt that a leader admitted or found on disk.
type run struct {
	of     *livingJob
	token  topology.Token
	nodes  []topology.NodeID // nodes of its tasks
	spares []spare           // other nodes that it holds
	spec   *messages.JobSpec
	since  actors.Instant // start of the estimate: its start, or its admission
	starts actors.Instant // its barrier is passed by then; 0: unknown
	began  actors.Instant // time of its barrier; 0: not passed, as far as known
	saved  actors.Instant // when its gang last acknowledged a checkpoint; 0: never
	over   actors.Instant // when its end was on disk; 0: not ended
	stay   *belief.Stay

	traits   estimate.Traits // of its job; zero before the first estimate
	estimate int64           // estimated run time
	place    int             // index in the heap, from 1; 0: not in it
	counted  bool            // the statistics count it as running
	ended    bool            // its end was on disk when it was read
	kept     bool            // it has ended, and its nodes keep its resources for an heir

	prepared time.Duration // time until its barrier; 0: unknown
}

// nodesOf returns the nodes of a list. The entries of each node must be adjacent.
func nodesOf[T any](all []T, node func(*T) topology.NodeID) (nodes []topology.NodeID) {
	for i := range all {
		if n := node(&all[i]); len(nodes) == 0 || nodes[len(nodes)-1] != n {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func slotNode(s *topology.Slot) topology.NodeID { return s.Node }

func placeNode(p **messages.Place) topology.NodeID { return topology.NodeID((*p).Node) }

// untilStarted is the same for an attempt that has yet to be admitted.
func untilStarted(spec *messages.JobSpec, c *actors.Constants) time.Duration {
	return c.ReservationTTL + protocol.UntilBarrier(spec, c)
}

// freeAfter returns when the capacity of an attempt is free at the latest if it passes its barrier by then. It returns
// topology.Never if there is no time limit.
func freeAfter(barrier actors.Instant, spec *messages.JobSpec, c *actors.Constants) int64 {
	if spec.GetTimeLimitMs() == 0 {
		return topology.Never
	}
	return int64(barrier.Plus(actors.Millis(spec.TimeLimitMs))) + int64(freeAfterStop(spec, c))
}

// freeAfterStop returns how long a stopped attempt keeps its capacity at most.
func freeAfterStop(spec *messages.JobSpec, c *actors.Constants) time.Duration {
	return actors.GraceOf(spec, *c) + endMargin
}

// untilPreempted returns how long a preempted attempt may run: the time to save a checkpoint, then the grace.
func untilPreempted(spec *messages.JobSpec, c *actors.Constants) time.Duration {
	return spec.SaveGrace() + actors.GraceOf(spec, *c)
}

// newRun replaces the job's latest attempt by a new one and starts to estimate its end.
func (s *lookahead) newRun(ctx actor.Context, e *livingJob, r *run) {
	s.dropRun(ctx, e)
	r.of, r.since, r.stay = e, s.p.Clock.Now(), &belief.Stay{}
	e.run = r
	s.foresee(e)
}

func (s *lookahead) onForeseen(ctx actor.Context, m protocol.Foreseen) {
	e := s.jobs[m.Job]
	if e == nil {
		return
	}
	if e.run == nil || e.run.token != m.Token {
		if m.Spec == nil {
			return // its Job is recreated and reports more
		}
		s.newRun(ctx, e, &run{token: m.Token, spec: m.Spec})
	}
	r := e.run
	if m.Spec != nil {
		r.spec = m.Spec
	}
	if m.Saved > r.saved {
		r.saved = m.Saved
		if p, is := s.planner.(policy.Preempter); is {
			p.Saved()
		}
	}
	if m.Starts != 0 {
		r.starts = m.Starts
	}
	if m.Began != 0 {
		if r.began == 0 && r.token.Epoch == s.p.Epoch {
			r.prepared = m.Began.Since(r.since)
		}
		s.countOut(r, nil) // another start was assumed
		r.since, r.began = m.Began, m.Began
		resumed := r.traits.Size == 0
		if s.estimate(e); resumed { // before it counts as a long-running attempt itself
			s.remembers(func(p policy.Rememberer) { p.Resumed(e.id, r.traits, r.estimate) })
		}
		s.countIn(r)
	}
	s.foresee(e)
	if s.foresight.horizon != nil {
		s.plan(ctx)
	}
}

// estimate stores the estimated run time of an attempt, by the present statistics.
func (s *learner) estimate(e *livingJob) {
	if e.run.traits.Size == 0 { // otherwise the planner has set them
		e.run.traits = traitsOf(e.rec, s.poolsNow())
	}
	e.run.estimate = s.learning.cells.Estimate(e.run.traits, int64(s.p.Clock.Now()))
}

// foresee computes when the capacity of a job's attempt becomes free, and records a change.
func (s *lookahead) foresee(e *livingJob) {
	was := e.run.stay.Hard
	s.workOut(e)
	if e.run.stay.Hard != was {
		s.view.Foresee(e.run.stay)
	}
	s.endChanged(e)
}

// workOut computes when the capacity of a job's attempt becomes free. Before its start, the run time counts from now,
// because the earlier phases are usually short.
func (s *learner) workOut(e *livingJob) {
	r, c, now := e.run, &s.p.Constants, s.p.Clock.Now()
	switch hard := &r.stay.Hard; {
	case r.over != 0:
		*hard = int64(r.over.Plus(freeAfterStop(r.spec, c)))
		r.stay.Likely = *hard
		return
	case r.began != 0:
		*hard = freeAfter(r.began, r.spec, c)
	case r.starts != 0:
		*hard = freeAfter(r.starts, r.spec, c)
	default:
		*hard, r.stay.Likely = topology.Never, topology.Never
		return
	}
	if r.estimate == 0 {
		s.estimate(e)
	}
	left := estimate.Remaining(r.estimate, int64(now.Since(r.since)), int64(actors.Millis(r.spec.TimeLimitMs)))
	r.stay.Likely = min(int64(now)+left, r.stay.Hard)
}

// freeBy returns when a tenant's capacity is free at the latest; 0 means unknown.
func freeBy(t *belief.Tenant) int64 {
	if t.Stay == nil || t.Stay.Hard == topology.Never {
		return 0
	}
	return t.Stay.Hard
}
