package belief

import "github.com/yi-json/synapse/topology"

// This file has the time when each attempt frees its capacity. An attempt has one stay, which all its nodes share. The
// time is changed only there, and reports of nodes do not affect it.

// Stay is the time when an attempt frees its capacity, on the steady clock of the current leader.
type Stay struct {
	Hard   int64 // the latest end; topology.Never if there is no limit or it is unknown
	Likely int64 // the expected end
	on     []*Machine
}

// Foresee reports the change of a stay to the followers of the view.
func (v *View) Foresee(s *Stay) {
	for _, m := range s.on {
		v.tree.Touch(m.id)
	}
}

// Ends returns the ends of the attempts that hold capacity on the node. Capacity that is used without a known attempt
// has no end.
func (m *Machine) Ends() (ends []topology.End) {
	for _, t := range m.tenants {
		if t.Stay == nil || !m.holds(t) {
			continue
		}
		for _, a := range t.amounts {
			ends = append(ends, topology.End{Amount: a, Hard: t.Stay.Hard, Likely: t.Stay.Likely, Of: t.Job})
		}
	}
	return ends
}

// Held returns the amounts that the ranks of an attempt hold on the node. These amounts are not in the node's free
// capacity. The caller only reads them. An attempt on the node can hold nothing, if its agent restarted before it
// granted a reservation.
func (m *Machine) Held(t topology.Token) []topology.Resources {
	if who := m.Tenant(t); who != nil && m.holds(who) {
		return who.amounts
	}
	return nil
}

// holds reports whether an attempt holds capacity on the node: by the reported ledger, or by a claim that the ledger
// does not show yet. After a node has reported that an attempt has left, its claim holds nothing.
func (m *Machine) holds(who *Tenant) bool {
	if who.Spare && m.covered(who.Token) {
		return false
	}
	for i := range m.books.Allocations {
		s := &m.books.Allocations[i]
		if s.Token == who.Token || s.Token == who.from && !s.Over {
			return !s.Over
		}
	}
	return who.claimed && !who.leaving
}
