package belief

import (
	"time"

	"github.com/yi-json/synapse/clock/backoff"
)

// This file owns the bench: a machine that refused or failed is left out, longer each time until it does well again.
// Else the next pass would propose the same again.

// Bench leaves a machine out and returns for how long.
func (m *Machine) Bench(why string, first, most time.Duration) time.Duration {
	m.rest = backoff.Next(m.rest, first, most)
	if m.benched = why; why == "" {
		m.benched = "it refused"
	}
	return m.rest
}

// Return ends a bench, and reports whether there was one.
func (m *Machine) Return() bool {
	was := m.benched != ""
	m.benched = ""
	return was
}

// DidWell notes that the machine did as it was asked: the next bench is a short one.
func (m *Machine) DidWell() { m.rest = 0 }

// Pardon ends a bench and forgets those before it.
func (m *Machine) Pardon() { m.benched, m.rest = "", 0 }

// Benched is the reason why the machine is left out, empty where it is not.
func (m *Machine) Benched() string { return m.benched }
