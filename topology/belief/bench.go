package belief

import (
	"time"

	"github.com/yi-json/synapse/clock/backoff"
)

// This file has the backoff of nodes. A node that refused or failed gets no work for a while, longer each time until it
// succeeds again. Without a backoff, the next plan would choose the same node again.

// Bench backs a node off, and returns the duration.
func (m *Machine) Bench(why string, first, most time.Duration) time.Duration {
	m.rest = backoff.Next(m.rest, first, most)
	if m.benched = why; why == "" {
		m.benched = "it refused"
	}
	return m.rest
}

// Return ends a backoff, and reports whether there was one.
func (m *Machine) Return() bool {
	was := m.benched != ""
	m.benched = ""
	return was
}

// DidWell records a success of the node, so that its next backoff is short.
func (m *Machine) DidWell() { m.rest = 0 }

// Pardon ends a backoff and resets its duration.
func (m *Machine) Pardon() { m.benched, m.rest = "", 0 }

// Benched returns the reason of the backoff, and "" if the node is not backed off.
func (m *Machine) Benched() string { return m.benched }
