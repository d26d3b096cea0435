package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what actors of one process say to each other. These messages
// never cross a machine; what does is in messages/.

// From the link to the Scheduler.
type (
	// LinkUp: a stream to this machine stands. Answered to the machine by Lead.
	LinkUp struct{ Node topology.NodeID }
	// LinkDown: it broke. Informative: only silence makes a machine dead.
	LinkDown struct{ Node topology.NodeID }
)

// Between whoever writes and the Journal.
type (
	// Lane says which of the Journal's queues a write waits in.
	Lane uint8
	// Write asks for a change to be made durable; answered by Written with the same Tag.
	Write struct {
		Change Change
		Lane   Lane
		Tag    any
	}
	// Written answers Write: definite, never in doubt. Full: the submit lane takes no
	// more now and nothing was or will be written.
	Written struct {
		Tag     any
		Verdict Verdict
		Full    bool
	}
)

// The lanes. Decisions never wait behind submits.
const (
	LaneDecisions Lane = iota + 1
	LaneSubmits
)

// Between Scheduler and Rack.
type (
	// enrol: this machine said Hello and may be welcomed. Scheduler → Rack.
	enrol struct {
		Hello *messages.Hello
		Node  *actor.PID
	}
	// expect: this machine is in the store but not yet heard; its clock starts now.
	expect struct{ Node topology.NodeID }
	// expel: this machine is removed. Scheduler → Rack.
	expel struct{ Node topology.NodeID }
	// reported: the machine's books changed. Rack → Scheduler.
	reported struct {
		Node        topology.NodeID
		Incarnation *messages.Incarnation
		Ledger      *messages.LedgerReport
	}
	// lost: the reaper declared it dead. Rack → Scheduler.
	lost struct {
		Node        topology.NodeID
		SilentSince Instant // when it was last heard
	}
	// strangerHeard: a machine that is dead or not enrolled spoke. Rack → Scheduler,
	// who asks it to say Hello again.
	strangerHeard struct{ Node topology.NodeID }
)

// From everyone to the Mirror.
type (
	// JobShown replaces what the Mirror shows of a job.
	JobShown struct{ Status *messages.JobStatus }
	// NodeShown replaces what the Mirror shows of a machine.
	NodeShown struct{ Status *messages.NodeStatus }
	// NodeHidden: the machine was removed.
	NodeHidden struct{ Node topology.NodeID }
)
