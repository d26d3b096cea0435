package bench

import (
	"testing"

	"github.com/yi-json/synapse/test/crowd"
)

// This file runs thousands of nodes in one process next to the scheduler's. Their cost is not counted for the
// scheduler.

// TestBeMachines is not a test: crowd runs it as another process.
func TestBeMachines(t *testing.T) { crowd.Be(t, perRack) }

// crowd starts a process with this many nodes, and waits until all are up and empty.
func (c *cluster) crowd(many int) {
	c.b.Helper()
	c.crowdOf(many)
	c.idle(many)
}

// crowdOf starts a process with this many nodes, and waits until all are up.
func (c *cluster) crowdOf(many int) {
	c.b.Helper()
	crowd.Start(c.b, many, c.address)
	c.up(many)
}
