package mirror

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the messages to a Mirror.

// From everyone to the Mirror.
type (
	// JobShown replaces what the Mirror shows of a job.
	JobShown struct{ Status *messages.JobStatus }
	// NodeShown replaces what the Mirror shows of a machine.
	NodeShown struct {
		Status *messages.NodeStatus
		Named  *messages.NodeUsers // its users with names, for who asks for it alone
		Outage Outage              // as its GPUs are counted
		// Free is what becomes of what it has free: Unwanted where it is open, and somebody may want it.
		Free   goodput.Class
		Untrue bool // its books cannot be true
	}
	// NodeHidden: the machine was removed.
	NodeHidden struct{ Node topology.NodeID }
	// WaitingShown: which reasons of waiting jobs have changed. Jobs of one shape wait in one group for one reason, so
	// that it is told once for all of them. Scheduler → Mirror.
	WaitingShown struct {
		Groups []GroupReason
		Jobs   []policy.Joined // each waits with its group from now on
		// Aside is a fact about every group that waits for room: "1 node drained".
		Aside string
	}
	// GroupReason is why the jobs of a group wait.
	GroupReason struct {
		Group  policy.GroupID
		Reason messages.Reason
		Asked  policy.Question // the question that the reason answers in short
	}
	// RoomsShown: the changes of what machines have free, of what is kept on them, and of who has the rest. Scheduler →
	// Mirror, at most every tenth of a second.
	RoomsShown struct {
		topology.Changes
		Holders [][]topology.Holder // one list for each of Machines
	}
	// StartsShown: all that is known of when waiting jobs start, in place of what was sent before. Scheduler → Mirror, at
	// most once a second; never from a planner that does not look ahead.
	StartsShown struct {
		policy.Prospects
		Endless []Endless // where the endless jobs that promises name are
		Learned bool      // from a job that has run, how long jobs run
	}
	// Endless is a job without a time limit on a machine that others wait for.
	Endless struct {
		Job  topology.JobID
		Node topology.NodeID
	}
	// WaitsNoMore: the job has left the queue. Scheduler → Mirror.
	WaitsNoMore struct{ Job topology.JobID }
	// PlanningShown: why no job starts now; the zero value: jobs start. Scheduler → Mirror.
	PlanningShown struct{ Reason messages.Reason }
)

// JobRecalled tells the Mirror of a job that is over according to the store. Scheduler → Mirror, the newest first,
// before anybody may read.
type JobRecalled actors.Ended
