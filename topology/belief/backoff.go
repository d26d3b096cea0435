package belief

import (
	"time"

	"github.com/yi-json/synapse/clock/backoff"
)

// This file has the backoff of nodes. A node that refused or failed gets no work for a while, longer each time until it
// succeeds again. Without a backoff, the next plan would choose the same node again.

// BackOff backs a node off, and returns the duration.
func (m *Machine) BackOff(why string, first, most time.Duration) time.Duration {
	m.rest = backoff.Next(m.rest, first, most)
	if m.backedOff = why; why == "" {
		m.backedOff = "it refused"
	}
	return m.rest
}

// Return ends a backoff, and reports whether there was one.
func (m *Machine) Return() bool {
	was := m.backedOff != ""
	m.backedOff = ""
	return was
}

// DidWell records a success of the node, so that its next backoff is short.
func (m *Machine) DidWell() { m.rest = 0 }

// Pardon ends a backoff and resets its duration.
func (m *Machine) Pardon() { m.backedOff, m.rest = "", 0 }

// BackedOff returns the reason of the backoff, and "" if the node is not backed off.
func (m *Machine) BackedOff() string { return m.backedOff }
