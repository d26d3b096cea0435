package policy

// This file has the interface of planners. A cluster has one planner, and the simulator compares it with others.

import (
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Planner decides in a pass which waiting gangs start now.
type Planner interface {
	// Plan starts gangs with Queue.Admit, ends the pass with Queue.Passed, and returns its decisions. nowNs is a
	// reading of the leader's monotonic clock.
	Plan(view *topology.Tree, queue *Queue, nowNs int64) Decisions
}

// Default is the simple planner, without reservations.
type Default struct{}

// Plan runs a pass.
func (Default) Plan(view *topology.Tree, queue *Queue, nowNs int64) Decisions {
	return Plan(view, queue, nowNs)
}

// Rememberer is a planner that uses the results of the jobs that it has started.
type Rememberer interface {
	Planner
	// Resumed reports an attempt that an earlier leader started.
	Resumed(job topology.JobID, traits estimate.Traits, estimate int64)
	// Ended reports the run time (ns) of a job's latest attempt after its end.
	Ended(job topology.JobID, ran int64)
	// Returned reports that an attempt failed before it ran: the job waits again, as if it had never been started.
	Returned(job topology.JobID)
	// Credits returns the credits of the guard, and Recall restores those of the last leader.
	Credits() []Credit
	Recall([]Credit)
	// Inherit restores a firm promise from disk, of an earlier leader or of a job's earlier actor. It reports
	// whether the job has a firm promise.
	Inherit(f *Firm, nowNs int64) bool
	// Committed reports that the COMMIT of a job with a promise is on disk, so that the job holds its nodes.
	Committed(job topology.JobID)
	// Forgotten reports that a user has ended a job, so that it neither waits nor runs. It returns true if nodes
	// stay reserved until the job's record has no promise.
	Forgotten(job topology.JobID) bool
	// Written reports that the record of a job matches its last firm promise. It returns true if that frees
	// capacity.
	Written(job topology.JobID) bool
}

// Planner returns the planner for these settings.
func (s *Settings) Planner(cells *estimate.Cells, ends Ends) Planner {
	if s.Order == share.Expected {
		return NewJudgement(*s, cells, ends)
	}
	return Default{}
}
