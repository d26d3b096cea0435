package mirror

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the messages to the Mirror.

// The Mirror receives these messages.
type (
	// JobShown replaces the status of a job. Job → Mirror.
	JobShown struct{ Status *messages.JobStatus }
	// NodeShown replaces the status of a node.
	NodeShown struct {
		Status *messages.NodeStatus
		Named  *messages.NodeUsers // users with names, only for a query of this node
		Outage Outage              // cause in the counts of GPUs
		// Free is the class of the node's free GPUs. The class is Unwanted if the node is schedulable and jobs may want its
		// GPUs.
		Free   goodput.Class
		Untrue bool // its ledger contradicts itself
	}
	// NodeHidden reports that the node was removed.
	NodeHidden struct{ Node topology.NodeID }
	// WaitingShown reports changed reasons of waiting jobs. Jobs of one shape wait in one group with one reason, so the
	// reason is sent once for all of them. Scheduler → Mirror.
	WaitingShown struct {
		Groups []GroupReason
		Jobs   []policy.Joined // each job joins its group
		// Aside is a fact that applies to every group that waits for capacity, such as "1 node drained".
		Aside string
	}
	// GroupReason holds the reason why the jobs of a group wait.
	GroupReason struct {
		Group  policy.GroupID
		Reason messages.Reason
		Asked  policy.Question // the request that the reason summarizes
	}
	// RoomsShown reports changes of free capacity, of reservations, and of the jobs that hold the rest. Scheduler →
	// Mirror, at most every tenth of a second.
	RoomsShown struct {
		topology.Changes
		Holders [][]topology.Holder // one list for each of Machines
	}
	// StartsShown replaces all start estimates of waiting jobs. Scheduler → Mirror, at most once a second. A planner
	// without lookahead never sends it.
	StartsShown struct {
		policy.Prospects
		Endless []Endless // nodes of the jobs without a time limit that promises name
		Learned bool      // estimates use the run times of finished jobs
	}
	// Endless is a job without a time limit on a node that other jobs wait for.
	Endless struct {
		Job  topology.JobID
		Node topology.NodeID
	}
	// WaitsNoMore reports that the job has left the queue. Scheduler → Mirror.
	WaitsNoMore struct{ Job topology.JobID }
	// PlanningShown reports why no job starts now. The zero value means that jobs start. Scheduler → Mirror.
	PlanningShown struct{ Reason messages.Reason }
)

// JobRecalled reports a finished job from the store. Scheduler → Mirror, newest first, before the Mirror serves
// readers.
type JobRecalled actors.Ended
