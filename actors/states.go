package actors

import (
	"fmt"
	"slices"
)

// This file owns the transitions of actors: only along the edges of the actor's table. A test writes the tables into
// docs/contribute/states.md.
//
// Each kind of actor has its own type for its states, so a state of one actor cannot be compared with a state of
// another. An architecture rule allows the text of a state only in the list of its type.

// Edge is one legal transition of a state machine: the state before, the event, and the state after. It is an array, so
// that a table reads as a list of triples.
type Edge[S ~string] [3]S

// From returns the state before the transition.
func (e Edge[S]) From() S { return e[0] }

// Event returns the event that causes the transition.
func (e Edge[S]) Event() string { return string(e[1]) }

// To returns the state after the transition.
func (e Edge[S]) To() S { return e[2] }

// Table is the state machine of one kind of actor. The first edge's From is the initial state.
type Table[S ~string] struct {
	Kind  Kind
	Edges []Edge[S]
}

// Words returns the table with plain strings, for readers of the tables of all kinds.
func (t *Table[S]) Words() Table[string] {
	words := Table[string]{Kind: t.Kind}
	for _, e := range t.Edges {
		words.Edges = append(words.Edges, Edge[string]{string(e.From()), e.Event(), string(e.To())})
	}
	return words
}

// States holds the present state of one actor.
type States[S ~string] struct {
	table *Table[S]
	host  Host
	now   S
}

// NewStates returns the initial state of a table.
func NewStates[S ~string](t *Table[S], h Host) States[S] {
	return States[S]{table: t, host: h, now: t.Edges[0].From()}
}

// Become moves along an edge. A transition that the table lacks is a broken invariant, because nothing is known about
// the resulting state.
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

// At returns the present state.
func (s *States[S]) At() S { return s.now }

// In reports whether the state is one of these.
func (s *States[S]) In(these ...S) bool { return slices.Contains(these, s.now) }
