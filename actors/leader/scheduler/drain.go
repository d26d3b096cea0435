package scheduler

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
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
func (s *Scheduler) armDrain(ctx actor.Context, m *machine) {
	m.drainSeq++
	m.drainEnds = 0
	if left := drainLeft(m.record); left > 0 {
		m.drainEnds = s.p.Clock.Now().Plus(left)
		s.awaitDrain(ctx, m, left)
	}
	s.tellDrain(ctx, m)
}

// disarmDrain: the machine is open again.
func (s *Scheduler) disarmDrain(ctx actor.Context, m *machine) {
	m.drainSeq++
	m.drainEnds = 0
	s.tellDrain(ctx, m)
}

// drainLeft is what was left of a drain when its record was written, zero where it
// has no deadline. An earlier version wrote only times of day: both by one clock,
// so that their difference is what was ordered, and that is waited for in full.
func drainLeft(r *messages.NodeRecord) time.Duration {
	switch {
	case r.GetDrained() == nil || r.DrainDeadlineUnixMs == 0:
		return 0
	case r.DrainLeftMs == 0:
		return actors.Millis(max(r.DrainDeadlineUnixMs-r.Drained.AtUnixMs, 1))
	}
	return actors.Millis(r.DrainLeftMs)
}

func (s *Scheduler) awaitDrain(ctx actor.Context, m *machine, left time.Duration) {
	part := min(max(left/drainParts, drainNoteLeast), drainNoteMost)
	s.p.Clock.After(min(left, part), ctx.Self(), drainDue{m.id, m.drainSeq})
}

// noteDrain puts what is left of a deadline into a record that is to be written:
// at least a moment, because none at all would be an earlier version's word. The
// time of day beside it is what people see, by the clock of whoever leads.
func (s *Scheduler) noteDrain(m *machine, r *messages.NodeRecord) {
	if m.drainEnds != 0 {
		r.DrainLeftMs = max(m.drainEnds.Since(s.p.Clock.Now()).Milliseconds(), 1)
		r.DrainDeadlineUnixMs = s.p.Clock.WallMs() + r.DrainLeftMs
	}
}

// onDrainDue writes what is left, or moves what still runs on the machine.
func (s *Scheduler) onDrainDue(ctx actor.Context, d drainDue) {
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
