package scheduler

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns the test of a drain's deadline in the node's record.

func TestDrainLeft(t *testing.T) {
	drained := &messages.Deed{AtUnixMs: 1_000_000}
	for name, c := range map[string]struct {
		record *messages.NodeRecord
		left   time.Duration
	}{
		"no record":          {nil, 0},
		"open":               {&messages.NodeRecord{DrainDeadlineUnixMs: 2_000_000, DrainLeftMs: 7}, 0},
		"without a deadline": {&messages.NodeRecord{Drained: drained}, 0},
		"as written": {&messages.NodeRecord{Drained: drained, DrainDeadlineUnixMs: 1_060_000, DrainLeftMs: 7},
			7 * time.Millisecond},
		"by an earlier version": {&messages.NodeRecord{Drained: drained, DrainDeadlineUnixMs: 1_060_000}, time.Minute},
		"whose clock jumped":    {&messages.NodeRecord{Drained: drained, DrainDeadlineUnixMs: 900_000}, time.Millisecond},
	} { //order: each case by itself
		if left := drainLeft(c.record); left != c.left {
			t.Errorf("a drain %s: %s left, not %s", name, left, c.left)
		}
	}
}
