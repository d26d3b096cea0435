package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/topology"
)

// This file owns the names of actors. A node answers to paths instead of PIDs that it received, so that the next leader
// gets answers under the same path.

const (
	rootName      = "synapse"
	SchedulerName = "scheduler"
	NodeName      = "node"

	// SchedulerPath is the path of a leader's Scheduler.
	SchedulerPath = rootName + "/" + SchedulerName
	// JournalPath is the path of a leader's Journal.
	JournalPath = rootName + "/journal"
	// MirrorPath is the path of a leader's Mirror.
	MirrorPath = rootName + "/mirror"
	// NodePath is the path of a node's Node actor.
	NodePath = rootName + "/" + NodeName
)

// JobName returns the name of a job's actor under the Scheduler.
func JobName(id topology.JobID) string { return "job-" + string(id) }

// JobPath returns the path of a job's actor on the leader. All facts about the job's attempts go there.
func JobPath(id topology.JobID) string { return SchedulerPath + "/" + JobName(id) }

// RackName returns the name of a rack's actor.
func RackName(name string) string { return "rack-" + name }

// At returns the PID of a path at the address of the given actor.
func At(speaker *actor.PID, path string) *actor.PID { return actor.NewPID(speaker.Address, path) }

const attemptPrefix = "attempt-"

// AttemptName returns the name of an attempt's Coordinator under its Job.
func AttemptName(t topology.Token) string { return attemptPrefix + t.String() }
