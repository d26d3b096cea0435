package actors

import "fmt"

// This file owns how an actor moves between its states: only along the edges of
// its table. The tables are rendered into docs/states.md by a test.

// Edge is one legal step of a state machine: from where, by what, and to where.
type Edge [3]string

// From is the state that the step leaves.
func (e Edge) From() string { return e[0] }

// Event is what makes it.
func (e Edge) Event() string { return e[1] }

// To is the state that it leads to.
func (e Edge) To() string { return e[2] }

// Table is a kind's whole state machine; the first edge's From is where it begins.
type Table struct {
	Kind  Kind
	Edges []Edge
}

// States is one actor's place in its table.
type States struct {
	table *Table
	host  Host
	now   string
}

// NewStates begins where the table does.
func NewStates(t *Table, h Host) States {
	return States{table: t, host: h, now: t.Edges[0].From()}
}

// Become moves along an edge. A step that the table lacks is a broken
// invariant: carrying on would act on a state nobody reasoned about.
func (s *States) Become(event, to string) {
	for _, e := range s.table.Edges {
		if e.From() == s.now && e.Event() == event && e.To() == to {
			s.host.Moved(s.table.Kind, s.now, event, to)
			s.now = to
			return
		}
	}
	panic(fmt.Sprintf("%s: no edge from %q by %q to %q", s.table.Kind, s.now, event, to))
}

// At is the state.
func (s *States) At() string { return s.now }

// In reports whether the state is one of these.
func (s *States) In(these ...string) bool {
	for _, t := range these {
		if s.now == t {
			return true
		}
	}
	return false
}
