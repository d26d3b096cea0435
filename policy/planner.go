package policy

// This file owns the place at which another policy can stand: a planner is a value
// that the leader is given. A cluster has the default one; what it is compared with
// lives beside the simulator.

import "github.com/yi-json/synapse/topology"

// Planner decides in a pass which of the waiting gangs start now.
type Planner interface {
	// Plan admits gangs by Queue.Admit, ends the pass by Queue.Passed, and answers what
	// it decided. nowNs is a reading of the leader's monotonic clock.
	Plan(view *topology.Fabric, queue *Queue, nowNs int64) Decisions
}

// Default is the planner of every cluster.
type Default struct{}

// Plan runs a pass.
func (Default) Plan(view *topology.Fabric, queue *Queue, nowNs int64) Decisions {
	return Plan(view, queue, nowNs)
}
