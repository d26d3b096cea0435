package actors

import (
	"fmt"
	"slices"
)

// This file owns how an actor moves between its states: only along the edges of
// its table. The tables are rendered into docs/contribute/states.md by a test.
//
// Each kind of actor has a type of its own for its states, so that one actor's state
// cannot be asked of another; a law lets no state's word stand anywhere but in its type's list.

// Edge is one legal step of a state machine: from where, by what, and to where. It is an
// array, so that a table reads as a list of triples.
type Edge[S ~string] [3]S

// From is the state that the step leaves.
func (e Edge[S]) From() S { return e[0] }

// Event returns the event that causes the transition.
func (e Edge[S]) Event() string { return string(e[1]) }

// To is the state that it leads to.
func (e Edge[S]) To() S { return e[2] }

// Table is a kind's whole state machine; the first edge's From is where it begins.
type Table[S ~string] struct {
	Kind  Kind
	Edges []Edge[S]
}

// Words is the table for those who read the tables of every kind.
func (t *Table[S]) Words() Table[string] {
	words := Table[string]{Kind: t.Kind}
	for _, e := range t.Edges {
		words.Edges = append(words.Edges, Edge[string]{string(e.From()), e.Event(), string(e.To())})
	}
	return words
}

// States is one actor's place in its table.
type States[S ~string] struct {
	table *Table[S]
	host  Host
	now   S
}

// NewStates begins where the table does.
func NewStates[S ~string](t *Table[S], h Host) States[S] {
	return States[S]{table: t, host: h, now: t.Edges[0].From()}
}

// Become moves along an edge. A step that the table lacks is a broken
// invariant: carrying on would act on a state nobody reasoned about.
func (s *States[S]) Become(event string, to S) {
	for _, e := range s.table.Edges {
		if e.From() == s.now && e.Event() == event && e.To() == to {
			s.host.Moved(s.table.Kind, string(s.now), event, string(to))
			s.now = to
			return
		}
	}
	panic(fmt.Sprintf("%s: no edge from %q by %q to %q", s.table.Kind, s.now, event, to))
}

// At is the state.
func (s *States[S]) At() S { return s.now }

// In reports whether the state is one of these.
func (s *States[S]) In(these ...S) bool { return slices.Contains(these, s.now) }
