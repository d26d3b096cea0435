package protocol

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the message about a node that has probably caused a failure.

// Accused reports the node that evidence of the kernel, the driver or the agent names as the cause of a failed attempt.
// A later one on the same attempt replaces it. Without a node, the attempt accuses none any more. Job → Scheduler.
type Accused struct {
	Token  topology.Token
	Job    topology.JobID
	Owner  string
	Node   topology.NodeID
	Class  messages.FailureClass
	Reason string
}
