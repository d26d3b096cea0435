package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns a drain's deadline. It is counted on this process's own steady
// clock, and what is left of it stands in the machine's record: as ordered, in
// each write of the record, and again whenever a part of it is over. A next leader
// counts on from there. The naive way, to compare a time of day on disk with our own
// wall clock, stops tasks an hour early where that clock is an hour ahead of the
// last leader's. The cost: while nobody leads nothing is counted, and what was left
// at the last write is waited for once more.

// A drain's remainder is written when an eighth of it is over, at least once a
// minute: a takeover adds no more than that. More often than once a second is not
// worth a write.
const (
	drainParts     = 8
	drainNoteLeast = time.Second
	drainNoteMost  = time.Minute
)

// armDrain counts a drained machine's deadline from what its record says.
func (s *drains) armDrain(ctx actor.Context, m *machine) {
	m.drainSeq++
	m.drainEnds = 0
	if left := drainLeft(m.record); left > 0 {
		m.drainEnds = s.p.Clock.Now().Plus(left)
		s.awaitDrain(ctx, m, left)
	}
	s.tellDrain(ctx, m)
}

// disarmDrain: the machine is open again.
func (s *drains) disarmDrain(ctx actor.Context, m *machine) {
	m.drainSeq++
	m.drainEnds = 0
	s.tellDrain(ctx, m)
}

// drainLeft returns the time that was left of a drain when its record was written; zero: it has no deadline. An earlier
// version wrote two times of day by one clock. Their difference is the ordered time, and the leader waits for all of
// it.
func drainLeft(r *messages.NodeRecord) time.Duration {
	switch {
	case r.GetDrained() == nil || r.DrainDeadlineUnixMs == 0:
		return 0
	case r.DrainLeftMs == 0:
		return actors.Millis(max(r.DrainDeadlineUnixMs-r.Drained.AtUnixMs, 1))
	}
	return actors.Millis(r.DrainLeftMs)
}

func (s *nodeTable) awaitDrain(ctx actor.Context, m *machine, left time.Duration) {
	part := min(max(left/drainParts, drainNoteLeast), drainNoteMost)
	s.p.Clock.After(min(left, part), ctx.Self(), drainDue{m.id, m.drainSeq})
}

// noteDrain puts what is left of a deadline into a record that is to be written:
// at least a moment, because none at all would be an earlier version's word. The
// time of day beside it is what people see, by the clock of whoever leads.
func (s *nodeTable) noteDrain(m *machine, r *messages.NodeRecord) {
	if m.drainEnds != 0 {
		r.DrainLeftMs = max(m.drainEnds.Since(s.p.Clock.Now()).Milliseconds(), 1)
		r.DrainDeadlineUnixMs = s.p.Clock.WallMs() + r.DrainLeftMs
	}
}

// onDrainDue writes what is left, or moves what still runs on the machine.
func (s *drains) onDrainDue(ctx actor.Context, d drainDue) {
	m := s.machines[d.Node]
	if m == nil || m.drainSeq != d.Seq || m.record.GetDrained() == nil {
		return
	}
	s.edit(ctx, m, nodeEdit{change: func(*messages.NodeRecord) {}})
	if left := m.drainEnds.Since(s.p.Clock.Now()); left > 0 {
		s.awaitDrain(ctx, m, left)
		return
	}
	for _, e := range s.tenantsOf(m) {
		ctx.Send(e.pid, protocol.MoveOff{Node: m.id, Cause: messages.Cause_CAUSE_DRAINED,
			Detail: string(m.id) + " is " + m.closed()})
	}
}

// What follows owns machines that are to be drained at a time of day. It is people who name it, for when they stand
// before the machine, so it is the wall clock of whoever leads that decides, as it does of a begin (begin.go). Until
// then the machine takes what has surely ended by then, by its time limit, and nothing else: a gang is placed without
// the machines that close too early for it. A gang's own list of machines says so, and not a bound on each machine,
// because nothing else of placing would ever have to know the time.
//
// For what waits the list only grows while time passes, so a job looks again when the next machine becomes
// too late for it, and no pass is due for that.

// closingDue is the timer of a machine that closes.
type closingDue struct {
	Node topology.NodeID
	Seq  uint64
}

// closing is one that is known, on the leader's steady clock.
type closing struct {
	at   actors.Instant
	node topology.NodeID
}

// closesLater refuses an order to close a machine at a time that cannot be meant; nil: it may be.
func (s *nodeTable) closesLater(m *machine, q *messages.ChangeNode) *messages.Outcome {
	if q.AtUnixMs == 0 {
		return nil
	}
	if m.record.Drained != nil {
		return &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "at_unix_ms", Text: q.Node + " is already drained",
			Hint: "uncordon it first",
		}
	}
	return protocol.TooFarAhead("at_unix_ms", q.AtUnixMs, s.p.Clock.WallMs())
}

// orderDrain writes a drain into a machine's record: one that begins later, or one that begins now.
func orderDrain(r *messages.NodeRecord, q *messages.ChangeNode, deed *messages.Deed) {
	if protocol.UntilMs(q.AtUnixMs, deed.AtUnixMs) > 0 {
		r.Closing, r.ClosesUnixMs, r.ClosingDeadlineMs = deed, q.AtUnixMs, q.DeadlineMs
		return
	}
	beginDrain(r, deed, q.DeadlineMs)
}

// beginDrain closes a machine in its record.
func beginDrain(r *messages.NodeRecord, deed *messages.Deed, deadlineMs int64) {
	forgetClosing(r)
	r.Drained, r.DrainDeadlineUnixMs, r.DrainLeftMs = deed, 0, 0
	if deadlineMs > 0 {
		r.DrainDeadlineUnixMs, r.DrainLeftMs = deed.AtUnixMs+deadlineMs, deadlineMs
	}
}

func forgetClosing(r *messages.NodeRecord) {
	r.Closing, r.ClosesUnixMs, r.ClosingDeadlineMs = nil, 0, 0
}

// armClosing awaits the time at which a machine closes, as its record says; the clock is looked at again within a
// minute. What waits chooses again where that time is another one than before.
func (s *drains) armClosing(ctx actor.Context, m *machine) {
	m.closingSeq++
	var at actors.Instant
	if m.record.GetClosing() != nil {
		now, wallUnixMs := s.p.Clock.Now(), s.p.Clock.WallMs()
		at = now.Plus(actors.Millis(m.record.ClosesUnixMs - wallUnixMs))
		s.p.Clock.After(max(protocol.UntilMs(m.record.ClosesUnixMs, wallUnixMs), 0), ctx.Self(), closingDue{m.id,
			m.closingSeq})
	}
	was := m.closes
	if m.closes = at; (was == 0) == (at == 0) && at.Since(was).Abs() < time.Second {
		return // the two clocks differ by less than anybody can tell
	}
	s.closings = slices.DeleteFunc(s.closings, func(c closing) bool { return c.node == m.id })
	if at != 0 {
		s.closings = append(s.closings, closing{at, m.id})
	}
	slices.SortFunc(s.closings, func(a, b closing) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node))
	})
	s.chooseAnew(ctx)
}

// onClosingDue looks at the clock again, and drains the machine when it is time.
func (s *drains) onClosingDue(ctx actor.Context, d closingDue) {
	m := s.machines[d.Node]
	if m == nil || m.closingSeq != d.Seq || m.record.GetClosing() == nil {
		return
	}
	if protocol.UntilMs(m.record.ClosesUnixMs, s.p.Clock.WallMs()) > 0 {
		s.armClosing(ctx, m)
		return
	}
	s.edit(ctx, m, nodeEdit{
		change: func(r *messages.NodeRecord) {
			if r.Closing != nil { // else it was taken back meanwhile
				beginDrain(r, &messages.Deed{By: r.Closing.By, Reason: r.Closing.Reason, AtUnixMs: s.p.Clock.WallMs()},
					r.ClosingDeadlineMs)
			}
		},
		after: func(ctx actor.Context) {
			s.armClosing(ctx, m)
			s.armDrain(ctx, m)
		},
	})
}

// closingFor are the machines that close too early for a job that is admitted now, and in how long the next one does;
// 0: none ever does.
func (s *drains) closingFor(spec *messages.JobSpec) (out []topology.NodeID, next time.Duration) {
	if len(s.closings) == 0 {
		return nil, 0
	}
	ends := actors.Instant(freeAfter(s.p.Clock.Now().Plus(untilStarted(spec, &s.p.Constants)), spec, &s.p.Constants))
	for _, c := range s.closings {
		if c.at >= ends { // what has no limit never ends
			return out, c.at.Since(ends) + time.Millisecond
		}
		out = append(out, c.node)
	}
	return out, 0
}

// chooseAnew has all that waits look which machines close too early for it, in the order of the queue: so each leaves
// its group at the head and joins another at the end, which costs the least.
func (s *drains) chooseAnew(ctx actor.Context) {
	if s.queue.Len() == 0 {
		return
	}
	all := make([]policy.Waiting, 0, s.queue.Len())
	for id := range s.jobs { //order: sorted below
		if w, ok := s.queue.Get(id); ok {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b policy.Waiting) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.Job, b.Job))
	})
	for _, w := range all {
		s.lookAgain(ctx, s.jobs[w.Job])
	}
}

// lookAgain has a job that waits choose its machines again.
func (s *drains) lookAgain(ctx actor.Context, e *livingJob) {
	w, ok := s.queue.Get(e.id)
	if !ok {
		return
	}
	was := w.Gang
	w.Gang = s.gangOf(ctx, e, e.spec)
	if slices.Equal(w.Gang.Closing, was.Closing) && slices.Equal(w.Gang.Avoid, was.Avoid) &&
		w.Gang.Account == was.Account {
		return
	}
	s.queue.Replace(w)
	s.plan(ctx)
}

// What follows owns which Jobs hear that machines of theirs are drained, so that they can warn their tasks.

// tellDrain tells the jobs on a machine by when it is emptied, if they warn their tasks.
func (s *drains) tellDrain(ctx actor.Context, m *machine) {
	for _, e := range s.tenantsOf(m) {
		s.tellDrainTo(ctx, m, e)
	}
}

func (s *jobTable) tellDrainTo(ctx actor.Context, m *machine, e *livingJob) {
	if e.rec.Spec.GetWarn() != nil {
		ctx.Send(e.pid, protocol.Drains{Node: m.id, Ends: m.drainEnds, Ordered: m.record.GetDrained().GetAtUnixMs()})
	}
}

// tellDrains tells an actor that was just made which machines of its job are being emptied.
func (s *drains) tellDrains(ctx actor.Context, e *livingJob, attempts []*messages.AttemptRecord) {
	for _, a := range attempts {
		for _, n := range protocol.Debtors(a) {
			if m := s.machines[topology.NodeID(n)]; m != nil && m.drainEnds != 0 {
				s.tellDrainTo(ctx, m, e)
			}
		}
	}
}
