package actors

import "fmt"

// This file owns how an actor moves between its states: only along the edges of
// its table. The tables are rendered into docs/states.md by a test.

// Edge is one legal step of a state machine.
type Edge struct {
	From, Event, To string
}

// Table is a kind's whole state machine; the first edge's From is where it begins.
type Table struct {
	Kind  Kind
	Edges []Edge
}

// states is one actor's place in its table.
type states struct {
	table *Table
	host  Host
	now   string
}

func newStates(t *Table, h Host) states {
	return states{table: t, host: h, now: t.Edges[0].From}
}

// become moves along an edge. A step that the table lacks is a broken
// invariant: carrying on would act on a state nobody reasoned about.
func (s *states) become(event, to string) {
	for _, e := range s.table.Edges {
		if e.From == s.now && e.Event == event && e.To == to {
			s.host.Moved(s.table.Kind, s.now, event, to)
			s.now = to
			return
		}
	}
	panic(fmt.Sprintf("%s: no edge from %q by %q to %q", s.table.Kind, s.now, event, to))
}

// in tells whether the state is one of these.
func (s *states) in(these ...string) bool {
	for _, t := range these {
		if s.now == t {
			return true
		}
	}
	return false
}

// Tables are the state machines of all kinds, for the docs and the tests.
func Tables() []*Table {
	return []*Table{&schedulerTable, &jobTable, &coordinatorTable, &rackTable, &journalTable, &nodeTable, &taskTable}
}
