package belief

import "github.com/yi-json/synapse/topology"

// This file owns the ends: when each attempt on a machine gives its room back. An attempt has one stay, the same on all
// its machines: whoever knows the time changes it there, and no report of a machine can touch it.

// Stay is until when an attempt keeps its room, on the steady clock of the scheduler that leads.
type Stay struct {
	Hard   int64 // the latest; topology.Never where it has no limit or nobody can say
	Likely int64 // as it is expected
	on     []*Machine
}

// Foresee tells the followers of the view that a stay has changed.
func (v *View) Foresee(s *Stay) {
	for _, m := range s.on {
		v.fabric.Touch(m.id)
	}
}

// Ends are the ends of what has room on the machine. Room that no known attempt explains has no end: nobody knows when
// it goes.
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

// Held are the amounts of an attempt's ranks that are taken on the machine, and so not in what is free there. The
// caller only reads. An attempt may be there and hold nothing: its agent was restarted before it had granted anything.
func (m *Machine) Held(t topology.Token) []topology.Resources {
	if who := m.Tenant(t); who != nil && m.holds(who) {
		return who.amounts
	}
	return nil
}

// holds reports whether room of the machine is taken for an attempt: by its books, or by a claim that is not in
// them yet. A machine that said that nothing of it is left keeps nothing for a claim.
func (m *Machine) holds(who *Tenant) bool {
	for i := range m.books.Slices {
		if s := &m.books.Slices[i]; s.Token == who.Token {
			return !s.Over
		}
	}
	return who.claimed && !who.leaving
}
