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
func (s *lookahead) endsChanged(m *machine) {
	if f := &s.foresight; f.horizon != nil && m != nil && !m.endsStale {
		m.endsStale = true
		f.stale = append(f.stale, m)
	}
}

// endChanged notes that the end of a job's attempt has.
func (s *lookahead) endChanged(e *livingJob) {
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
func (s *lookahead) dropRun(e *livingJob) {
	s.countOut(e.run, nil)
	if r := e.run; r != nil && r.place > 0 {
		heap.Remove(&s.foresight.expected, r.place-1)
	}
	e.run = nil
}

// remembers tells a planner that goes by it what came of a job's latest attempt.
func (s *planning) remembers(tell func(policy.Rememberer)) {
	if p, is := s.planner.(policy.Rememberer); is {
		tell(p)
	}
}

// ends answers a planner (policy.Ends). It stands beside the Scheduler and not on it, whose methods are its mail.
type ends struct{ s *lookahead }

// Horizon returns when capacity becomes free, as known now. A job that has run longer than expected is expected to end
// later.
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

// What follows owns when the room of an attempt is free again, as far as a leader can say: by its time limit at the
// latest, and as is expected by what was learned. The sum is made here and nowhere else. What goes into it the Job
// says: when the attempt passed its barrier, after a takeover by its machines' own clocks (job/times.go), and its
// limit, which people may change. All of it is on this process's steady clock, and none of it ends anything.

// endMargin is how long after its last second the room of a job may take to be free: Stop may have to be sent
// again, the evidence has to come, and what is counted here is counted before it is acted on.
const endMargin = 20 * time.Second

// run is an attempt that a leader gave room, or found on disk.
type run struct {
	of     *livingJob
	token  topology.Token
	nodes  []topology.NodeID // where it was given room
	spec   *messages.JobSpec
	since  actors.Instant // from when its estimate counts: since it began, or was admitted
	starts actors.Instant // by then it has passed its barrier; 0: nobody knows
	began  actors.Instant // when it did; 0: it has not, as far as is known
	over   actors.Instant // when its end came to disk; 0: it goes on
	stay   *belief.Stay

	traits   estimate.Traits // of its job; none before they were asked for
	estimate int64           // for how long it was expected to run then
	place    int             // among those that are expected to end, from 1; 0: it is none of them
	counted  bool            // what is learned counts it as running
	ended    bool            // its end was on disk when it was read

	prepared time.Duration // how long it took until its barrier; 0: nobody here knows
}

// nodesOf are the machines of what lies on them, one machine's after the other.
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

// untilStarted is the same for one that is to be admitted.
func untilStarted(spec *messages.JobSpec, c *actors.Constants) time.Duration {
	return c.ReservationTTL + protocol.UntilBarrier(spec, c)
}

// freeAfter is when the room of an attempt is free at the latest that passes its barrier by then; topology.Never:
// it has no time limit.
func freeAfter(barrier actors.Instant, spec *messages.JobSpec, c *actors.Constants) int64 {
	if spec.GetTimeLimitMs() == 0 {
		return topology.Never
	}
	return int64(barrier.Plus(actors.Millis(spec.TimeLimitMs))) + int64(freeAfterStop(spec, c))
}

// freeAfterStop is how long it takes until the room of what is told to stop is free.
func freeAfterStop(spec *messages.JobSpec, c *actors.Constants) time.Duration {
	return actors.GraceOf(spec, *c) + endMargin
}

// newRun begins to foresee the end of an attempt, in place of the job's last.
func (s *lookahead) newRun(e *livingJob, r *run) {
	s.dropRun(e)
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
			return // its Job is recreated, and says more
		}
		s.newRun(e, &run{token: m.Token, spec: m.Spec})
	}
	r := e.run
	if m.Spec != nil {
		r.spec = m.Spec
	}
	if m.Starts != 0 {
		r.starts = m.Starts
	}
	if m.Began != 0 {
		if r.began == 0 && r.token.Epoch == s.p.Epoch {
			r.prepared = m.Began.Since(r.since)
		}
		s.countOut(r, nil) // it had been taken to have begun at another moment
		r.since, r.began = m.Began, m.Began
		resumed := r.traits.Size == 0
		if s.estimate(e); resumed { // before it counts itself as one of those that run for long
			s.remembers(func(p policy.Rememberer) { p.Resumed(e.id, r.traits, r.estimate) })
		}
		s.countIn(r)
	}
	s.foresee(e)
	if s.foresight.horizon != nil {
		s.plan(ctx)
	}
}

// estimate notes for how long an attempt is expected to run, by what is known now.
func (s *learner) estimate(e *livingJob) {
	if e.run.traits.Size == 0 { // else the planner has told them
		e.run.traits = traitsOf(e.rec, s.poolsNow())
	}
	e.run.estimate = s.learning.cells.Estimate(e.run.traits, int64(s.p.Clock.Now()))
}

// foresee works out again when the room of a job's attempt is free, and has it told where that is another time.
func (s *lookahead) foresee(e *livingJob) {
	was := e.run.stay.Hard
	s.workOut(e)
	if e.run.stay.Hard != was {
		s.view.Foresee(e.run.stay)
	}
	s.endChanged(e)
}

// workOut works out when the room of a job's attempt is free. Until it has begun it is expected to run from now
// on: of the phases before that most take no time.
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

// freeBy is when what a tenant has is free at the latest; 0: nobody can say.
func freeBy(t *belief.Tenant) int64 {
	if t.Stay == nil || t.Stay.Hard == topology.Never {
		return 0
	}
	return t.Stay.Hard
}
