package actors

import "github.com/yi-json/synapse/topology"

// This file owns the messages from a process to its own actors. They never leave the process. Messages between
// processes are in messages/.

// These messages go from the link to the Scheduler.
type (
	// LinkUp reports that a stream to this node is open. The Scheduler answers the node with Lead.
	LinkUp struct{ Node topology.NodeID }
	// LinkDown reports that the stream broke. It is informative only: a node is declared dead by its silence.
	LinkDown struct{ Node topology.NodeID }
)
