package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns which Jobs hear that machines of theirs are drained, so that they can warn their tasks.

// tellDrain tells the jobs on a machine by when it is emptied, if they warn their tasks.
func (s *Scheduler) tellDrain(ctx actor.Context, m *machine) {
	for _, e := range s.tenantsOf(m) {
		s.tellDrainTo(ctx, m, e)
	}
}

func (s *Scheduler) tellDrainTo(ctx actor.Context, m *machine, e *livingJob) {
	if e.rec.Spec.GetWarn() != nil {
		ctx.Send(e.pid, protocol.Drains{Node: m.id, Ends: m.drainEnds, Ordered: m.record.GetDrained().GetAtUnixMs()})
	}
}

// tellDrains tells an actor that was just made which machines of its job are being emptied.
func (s *Scheduler) tellDrains(ctx actor.Context, e *livingJob, attempts []*messages.AttemptRecord) {
	for _, a := range attempts {
		for _, n := range protocol.Debtors(a) {
			if m := s.machines[topology.NodeID(n)]; m != nil && m.drainEnds != 0 {
				s.tellDrainTo(ctx, m, e)
			}
		}
	}
}
