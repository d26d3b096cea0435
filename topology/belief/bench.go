package belief

import (
	"time"

	"github.com/yi-json/synapse/clock/backoff"
)

// This file owns the bench: a machine that refused or failed is left out, longer each time until it does well again.
// Else the next pass would propose the same again.

// Bench leaves a machine out and returns for how long, and the number of this bench.
func (m *Machine) Bench(why string, first, most time.Duration) (rest time.Duration, seq uint64) {
	m.rest = backoff.Next(m.rest, first, most)
	m.benchSeq++
	if m.benched = why; why == "" {
		m.benched = "it refused"
	}
	return m.rest, m.benchSeq
}

// Return ends the bench of that number, and reports whether it was in force.
func (m *Machine) Return(seq uint64) bool {
	if m.benchSeq != seq || m.benched == "" {
		return false
	}
	m.benched = ""
	return true
}

// DidWell notes that the machine did as it was asked: the next bench is a short one.
func (m *Machine) DidWell() { m.rest = 0 }

// Pardon ends a bench and forgets those before it.
func (m *Machine) Pardon() { m.benched, m.rest = "", 0 }

// Benched is the reason why the machine is left out, empty where it is not.
func (m *Machine) Benched() string { return m.benched }
