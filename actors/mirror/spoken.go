package mirror

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a Mirror is told.

// From everyone to the Mirror.
type (
	// JobShown replaces what the Mirror shows of a job.
	JobShown struct{ Status *messages.JobStatus }
	// NodeShown replaces what the Mirror shows of a machine.
	NodeShown struct{ Status *messages.NodeStatus }
	// NodeHidden: the machine was removed.
	NodeHidden struct{ Node topology.NodeID }
	// WaitingShown: what has changed of why jobs wait. Jobs of one shape wait in one
	// group for one reason, so that it is told once for all of them. Scheduler → Mirror.
	WaitingShown struct {
		Groups []GroupReason
		Jobs   []policy.Joined // each waits with its group from here on
		// Aside is what holds for every group, as that machines are out of service.
		Aside string
	}
	// GroupReason is why the jobs of a group wait.
	GroupReason struct {
		Group  policy.GroupID
		Reason string
		Asked  policy.Question // what the reason is the short answer to
	}
	// RoomsShown: what has changed of what machines have free, of what is kept on them, and
	// of who has the rest. Scheduler → Mirror, at most every tenth of a second.
	RoomsShown struct {
		topology.Changes
		Holders [][]topology.Holder // one list for each of Machines
	}
	// StartsShown: all that can be told of when waiting jobs start, in place of what was told before.
	// Scheduler → Mirror, at most once a second; never by a planner that does not look ahead.
	StartsShown struct {
		policy.Prospects
		Endless []Endless // where those are that the promises name
	}
	// Endless is a job without a time limit on a machine that others wait for.
	Endless struct {
		Job  topology.JobID
		Node topology.NodeID
	}
	// WaitsNoMore: the job has left the queue. Scheduler → Mirror.
	WaitsNoMore struct{ Job topology.JobID }
	// PlanningShown: why nothing is planned now; empty: it is. Scheduler → Mirror.
	PlanningShown struct{ Why string }
)

// JobRecalled tells the Mirror of a job that the store knows to be over.
// Scheduler → Mirror, the newest first, before anybody may read.
type JobRecalled actors.Ended
