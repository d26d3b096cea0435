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

// This file owns the deadline of a drain. It counts on this process's steady clock, and the remaining time is in the
// node's record. The record is updated when the drain is ordered, with every other write, and after each part of the
// time. The next leader continues with the remaining time. A time of day on disk would stop tasks an hour early if this
// leader's clock is an hour ahead of the last leader's. Disadvantage: without a leader no time counts, and the time
// after the last write counts twice.

// The remaining time of a drain is written after each eighth of it, and at least once a minute. Writes are at
// least a second apart. Apart from the time without a leader, a takeover extends the drain by at most the time since
// the last write.
const (
	drainParts     = 8
	drainNoteLeast = time.Second
	drainNoteMost  = time.Minute
)

// armDrain starts the timer of a drained node from its record.
func (s *drains) armDrain(ctx actor.Context, m *machine) {
	m.drainSeq++
	m.drainEnds = 0
	if left := drainLeft(m.record); left > 0 {
		m.drainEnds = s.p.Clock.Now().Plus(left)
		s.awaitDrain(ctx, m, left)
	}
	s.tellDrain(ctx, m)
}

// disarmDrain stops the timer, because the node is schedulable again.
func (s *drains) disarmDrain(ctx actor.Context, m *machine) {
	m.drainSeq++
	m.drainEnds = 0
	s.tellDrain(ctx, m)
}

// drainLeft returns the time that was left of a drain when its record was written. Zero means that there is no
// deadline. An earlier version wrote two times of day by one clock. Their difference is the ordered time, and the
// leader waits for all of it.
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

// noteDrain writes the remaining time of a drain into a record, at least one millisecond, because zero marks a record
// of an earlier version. The time of day is for display, by the leader's clock.
func (s *nodeTable) noteDrain(m *machine, r *messages.NodeRecord) {
	if m.drainEnds != 0 {
		r.DrainLeftMs = max(m.drainEnds.Since(s.p.Clock.Now()).Milliseconds(), 1)
		r.DrainDeadlineUnixMs = s.p.Clock.WallMs() + r.DrainLeftMs
	}
}

// onDrainDue writes the remaining time, or ends the tasks on the node when no time is left.
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

// The rest of this section owns drains that begin at a given time of day. An operator names a time at the location of
// the node, so the leader's wall clock decides, as for a job's begin time (begin.go). Until then, the node accepts only
// jobs that end in time by their time limits. A gang is placed without the nodes that close too early for it. The
// gang's own list of avoided nodes expresses this, so placement needs no notion of time.
//
// For a waiting job the list only grows with time. A timer updates the job's list when the next node becomes too late
// for it.

// closingDue is the timer of a node that closes.
type closingDue struct {
	Node topology.NodeID
	Seq  uint64
}

// closing is a future drain, by the leader's steady clock.
type closing struct {
	at   actors.Instant
	node topology.NodeID
}

// closesLater returns the refusal of an implausible closing time. It returns nil if the time is acceptable.
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

// orderDrain writes a drain into a node's record, beginning now or later.
func orderDrain(r *messages.NodeRecord, q *messages.ChangeNode, deed *messages.Deed) {
	if protocol.UntilMs(q.AtUnixMs, deed.AtUnixMs) > 0 {
		r.Closing, r.ClosesUnixMs, r.ClosingDeadlineMs = deed, q.AtUnixMs, q.DeadlineMs
		return
	}
	beginDrain(r, deed, q.DeadlineMs)
}

// beginDrain marks the node as drained in its record.
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

// armClosing schedules the closing of a node from its record. It checks the wall clock at least once a minute. If the
// time has changed, waiting jobs compute their avoided nodes again.
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
		return // the difference between the two clocks is too small to matter
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

// onClosingDue checks the clock again, and drains the node if the time has come.
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
			if r.Closing != nil { // otherwise the order was cancelled meanwhile
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

// closingFor returns the nodes that close too early for a job that is admitted now, and the time until the next node
// does. A time of 0 means that no other node will.
func (s *drains) closingFor(spec *messages.JobSpec) (out []topology.NodeID, next time.Duration) {
	if len(s.closings) == 0 {
		return nil, 0
	}
	ends := actors.Instant(freeAfter(s.p.Clock.Now().Plus(untilStarted(spec, &s.p.Constants)), spec, &s.p.Constants))
	for _, c := range s.closings {
		if c.at >= ends { // a job without a time limit never ends
			return out, c.at.Since(ends) + time.Millisecond
		}
		out = append(out, c.node)
	}
	return out, 0
}

// chooseAnew makes all waiting jobs compute their avoided nodes again, in queue order. Each job then leaves its group
// at the head and joins another at the end, which is the cheapest order.
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

// lookAgain computes the avoided nodes of a waiting job again.
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

// The rest of this file owns which Jobs are notified of drains, so that they can warn their tasks.

// tellDrain reports the end of a drain to the jobs on a node that warn their tasks.
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

// tellDrains reports the drains of a job's nodes to its new actor.
func (s *drains) tellDrains(ctx actor.Context, e *livingJob, attempts []*messages.AttemptRecord) {
	for _, a := range attempts {
		for _, n := range protocol.Debtors(a) {
			if m := s.machines[topology.NodeID(n)]; m != nil && m.drainEnds != 0 {
				s.tellDrainTo(ctx, m, e)
			}
		}
	}
}
