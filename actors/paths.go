package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/topology"
)

// This file owns the names of actors. A machine answers to paths, not to PIDs
// it was given, so that a next leader is answered as the last one was.

const (
	rootName      = "synapse"
	SchedulerName = "scheduler"
	NodeName      = "node"

	// SchedulerPath is where a leader's Scheduler lives.
	SchedulerPath = rootName + "/" + SchedulerName
	// JournalPath is where its Journal lives.
	JournalPath = rootName + "/journal"
	// MirrorPath is where its Mirror lives.
	MirrorPath = rootName + "/mirror"
	// NodePath is where a machine's Node lives.
	NodePath = rootName + "/" + NodeName
)

// JobName is the name of a job's actor under the Scheduler.
func JobName(id topology.JobID) string { return "job-" + string(id) }

// JobPath is where the leader's actor of a job lives: all facts about the job's
// attempts go there.
func JobPath(id topology.JobID) string { return SchedulerPath + "/" + JobName(id) }

// RackName is the name of a rack's.
func RackName(name string) string { return "rack-" + name }

// At is the same path at the address of somebody who spoke to us.
func At(speaker *actor.PID, path string) *actor.PID { return actor.NewPID(speaker.Address, path) }

const attemptPrefix = "attempt-"

// AttemptName is the name of an attempt's Coordinator under its Job.
func AttemptName(t topology.Token) string { return attemptPrefix + t.String() }
