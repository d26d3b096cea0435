package bench

import (
	"testing"

	"github.com/yi-json/synapse/test/crowd"
)

// This file owns machines by the thousand, in one process beside that of the scheduler. What they cost is not counted
// for the scheduler.

// TestBeMachines is not a test: crowd runs it as another process.
func TestBeMachines(t *testing.T) { crowd.Be(t, perRack) }

// crowd starts a process of this many machines, and waits until all are up and empty.
func (c *cluster) crowd(many int) {
	c.b.Helper()
	c.crowdOf(many)
	c.idle(many)
}

// crowdOf starts a process of this many machines, and waits until all are up.
func (c *cluster) crowdOf(many int) {
	c.b.Helper()
	crowd.Start(c.b, many, c.address)
	c.up(many)
}
