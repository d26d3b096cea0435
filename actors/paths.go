package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/topology"
)

// This file owns the names of actors. A machine answers to paths, not to PIDs
// it was given, so that a next leader is answered as the last one was.

const (
	rootName  = "synapse"
	schedName = "scheduler"
	nodeName  = "node"

	// SchedulerPath is where a leader's Scheduler lives.
	SchedulerPath = rootName + "/" + schedName
	// JournalPath is where its Journal lives.
	JournalPath = rootName + "/journal"
	// MirrorPath is where its Mirror lives.
	MirrorPath = rootName + "/mirror"
	// NodePath is where a machine's Node lives.
	NodePath = rootName + "/" + nodeName
)

func jobName(id topology.JobID) string { return "job-" + string(id) }

// JobPath is where the leader's actor of a job lives: all facts about the job's
// attempts go there.
func JobPath(id topology.JobID) string { return SchedulerPath + "/" + jobName(id) }

func rackName(name string) string { return "rack-" + name }

// At is the same path at the address of somebody who spoke to us.
func At(speaker *actor.PID, path string) *actor.PID { return actor.NewPID(speaker.Address, path) }
