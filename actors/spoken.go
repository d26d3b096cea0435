package actors

import "github.com/yi-json/synapse/topology"

// This file owns what a process says to its own actors. These messages never cross
// a machine; what does is in messages/.

// From the link to the Scheduler.
type (
	// LinkUp: a stream to this machine stands. Answered to the machine by Lead.
	LinkUp struct{ Node topology.NodeID }
	// LinkDown: it broke. Informative: only silence makes a machine dead.
	LinkDown struct{ Node topology.NodeID }
)
