package scheduler

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns spares: nodes that a gang holds without a task on them, to replace lost nodes at once. The planner
// places them with the gang, so they count in every limit and estimate. The nodes know nothing of them: only the
// leader's view holds their resources, and the record of the attempt names them for the next leader.

// spare is a node that a gang holds.
type spare struct {
	node    topology.NodeID
	machine string         // ID of the machine
	token   topology.Token // of its claim
}

// splitSpares returns the slots of a gang's tasks, and those of its spares, which come last. A leader of an earlier
// version reserves no spares.
func splitSpares(spec *messages.JobSpec, all []topology.Slot) (tasks, spares []topology.Slot) {
	n := len(all)
	if spec.GetRestart().GetSpares() > 0 {
		n = min(n, int(spec.GetGang().GetReplicasMin()))
	}
	return all[:n:n], all[n:]
}

// sparesIn describes the spares of a placement for the record of the attempt.
func (s *nodeTable) sparesIn(slots []topology.Slot) (all []*messages.Spare) {
	for _, slot := range slots {
		all = append(all, &messages.Spare{
			Node: string(slot.Node), MachineId: s.machines[slot.Node].record.MachineId,
		})
	}
	return all
}

// setSpares makes these nodes the spares of a job's attempt. Others become free.
func (s *lookahead) setSpares(ctx actor.Context, e *livingJob, all []*messages.Spare) {
	var next []spare
	for _, sp := range all {
		next = append(next, spare{node: topology.NodeID(sp.Node), machine: sp.MachineId})
	}
	had := e.run.spares
	e.run.spares = next
	for i := range next {
		if k := slices.IndexFunc(had, next[i].isAt); k >= 0 {
			next[i].token = had[k].token
			had = slices.Delete(had, k, k+1)
		}
		s.holdSpare(ctx, e, &next[i])
	}
	for i := range had {
		s.freeSpare(ctx, &had[i])
	}
}

func (sp spare) isAt(other spare) bool { return sp.node == other.node && sp.machine == other.machine }

// holdSpare claims a spare in the view.
func (s *lookahead) holdSpare(ctx actor.Context, e *livingJob, sp *spare) {
	m := s.machines[sp.node]
	if m == nil || m.record.GetMachineId() != sp.machine || m.room.Tenant(sp.token) != nil {
		return
	}
	if sp.token.IsZero() {
		sp.token = s.newToken()
	}
	s.claimSpare(e, sp)
	s.spareChanged(ctx, m)
}

func (s *lookahead) claimSpare(e *livingJob, sp *spare) {
	m := s.machines[sp.node]
	who := belief.Lodger{Token: sp.token, Job: e.id, Stay: e.run.stay, Spare: true}
	m.room.Claim(&who, messages.FromResources(e.rec.Spec.Each))
}

// loosenSpare drops a spare's claim for a moment, so that another placement on the node can be tried.
func (s *lookahead) loosenSpare(sp *spare) {
	m := s.machines[sp.node]
	m.room.Evict(sp.token)
	s.view.Settle(m.room, m.standing())
}

// tightenSpare claims a loosened spare again.
func (s *lookahead) tightenSpare(e *livingJob, sp *spare) {
	s.claimSpare(e, sp)
	m := s.machines[sp.node]
	s.view.Settle(m.room, m.standing())
}

// freeSpare returns a spare's claim.
func (s *lookahead) freeSpare(ctx actor.Context, sp *spare) {
	if m := s.machines[sp.node]; m != nil && m.room.Tenant(sp.token) != nil {
		m.room.Evict(sp.token)
		s.spareChanged(ctx, m)
	}
}

// spareChanged updates a node in the view whose claim by a spare has changed, and requests a pass. While a pass admits,
// the view lacks the capacity of jobs that are admitted next, so the update comes after them.
func (s *lookahead) spareChanged(ctx actor.Context, m *machine) {
	if s.admitting {
		s.unsettled = append(s.unsettled, m)
	} else {
		s.view.Settle(m.room, m.standing())
	}
	s.endsChanged(m)
	s.showNode(ctx, m)
	s.plan(ctx)
}

// freeSpares returns all spares of an attempt that has ended, or that never began.
func (s *lookahead) freeSpares(ctx actor.Context, r *run) {
	if r == nil {
		return
	}
	for i := range r.spares {
		s.freeSpare(ctx, &r.spares[i])
	}
	r.spares = nil
}

// settleSpares updates the nodes in the view whose claims by spares have changed while a pass admitted.
func (s *planning) settleSpares() {
	s.admitting = false
	for _, m := range s.unsettled {
		s.view.Settle(m.room, m.standing())
	}
	clear(s.unsettled)
	s.unsettled = s.unsettled[:0]
}

// heldSpares returns the spares of a job. Only those on usable nodes can replace a node.
func (s *nodeTable) heldSpares(e *livingJob) (all []*spare) {
	if e.run == nil {
		return nil
	}
	for i := range e.run.spares {
		sp := &e.run.spares[i]
		if m := s.machines[sp.node]; m != nil && m.room.Tenant(sp.token) != nil {
			all = append(all, sp)
		}
	}
	return all
}

// overSpare returns the claim of a spare on a node that a swap uses, and removes the spare from the list that the heir
// keeps.
func overSpare(e *livingJob, n topology.NodeID, left *[]*messages.Spare) (claim topology.Token) {
	if e.run == nil {
		return claim
	}
	for _, sp := range e.run.spares {
		if sp.node == n {
			claim = sp.token
		}
	}
	*left = slices.DeleteFunc(*left, func(l *messages.Spare) bool { return l.Node == string(n) })
	return claim
}

// sparesOf describes the spares of a job's attempt for a record.
func sparesOf(e *livingJob) (all []*messages.Spare) {
	if e.run == nil {
		return nil
	}
	for _, sp := range e.run.spares {
		all = append(all, &messages.Spare{Node: string(sp.node), MachineId: sp.machine})
	}
	return all
}
