package policy

// This file owns the place at which another policy can stand: a planner is a value
// that the leader is given. A cluster has the default one; what it is compared with
// lives beside the simulator.

import (
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

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

// Rememberer is a planner that goes by what came of what it started.
type Rememberer interface {
	Planner
	// Resumed tells it of an attempt that an earlier leader started.
	Resumed(job topology.JobID, traits estimate.Traits, estimate int64)
	// Ended tells it for how long (ns) the latest attempt of a job ran, once that is over.
	Ended(job topology.JobID, ran int64)
	// Returned says that it came to nothing: the job waits again, as if it had never been started.
	Returned(job topology.JobID)
	// Credits are what the guard may spend, as the last leader left them; Recall takes them over.
	Credits() []Credit
	Recall([]Credit)
	// Inherit has it keep a firm promise that is on disk, of an earlier leader or of a job's earlier actor, and reports
	// whether the job has one.
	Inherit(f *Firm, nowNs int64) bool
	// Committed says that what a job had was promised is its own: COMMIT is on disk.
	Committed(job topology.JobID)
	// Forgotten says that a job waits no longer and runs no longer, by somebody's word, and reports whether room is kept
	// until its record says that nothing is promised to it.
	Forgotten(job topology.JobID) bool
	// Written says that the record of a job is as was said last of its firm promise, and reports whether room comes free
	// by that.
	Written(job topology.JobID) bool
}

// Planner is the one that the settings ask for.
func (s *Settings) Planner(cells *estimate.Cells, ends Ends) Planner {
	if s.Order == share.Expected {
		return NewJudgement(*s, cells, ends)
	}
	return Default{}
}
