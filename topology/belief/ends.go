package belief

import "github.com/yi-json/synapse/topology"

// This file owns when what is on a machine ends. An attempt has one stay, the same on all its machines: whoever
// knows the time changes it there, and no report of a machine can touch it.

// Stay is until when an attempt has what it has, on a steady clock of whoever leads.
type Stay struct {
	Hard   int64 // at the latest; topology.Never: it has no limit, or nobody can say
	Likely int64 // as it is expected
	on     []*Machine
}

// Foresee tells whoever follows the view of a stay that is another one now.
func (v *View) Foresee(s *Stay) {
	for _, m := range s.on {
		v.fabric.Touch(m.id)
	}
}

// Ends are the ends of what has room on the machine. What no attempt here explains has none: nobody knows when it
// goes.
func (m *Machine) Ends() (ends []topology.End) {
	for _, t := range m.tenants {
		if t.Stay == nil || !m.holds(t) {
			continue
		}
		for _, a := range t.amounts {
			ends = append(ends, topology.End{Amount: a, Hard: t.Stay.Hard, Likely: t.Stay.Likely})
		}
	}
	return ends
}

// holds reports whether room of the machine is taken for an attempt: by its books, or by a claim that is not in
// them yet.
func (m *Machine) holds(who *Tenant) bool {
	for i := range m.books.Slices {
		if s := &m.books.Slices[i]; s.Token == who.Token {
			return !s.Over
		}
	}
	return who.claimed
}
