package protocol

import (
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a Job, its Coordinators and the Scheduler say of one attempt.

// AttemptPlan is what a Coordinator is given to work at.
type AttemptPlan struct {
	Job     topology.JobID
	Token   topology.Token
	Run     int32
	Spec    *messages.JobSpec
	UID     uint32              // of its tasks; 0: none was given
	Owner   *messages.Principal // of the job
	Targets []Target
	StartBy actors.Instant // by then it passes its barrier or not at all; 0: whenever it is ready
	Ready   time.Duration  // how long it had for that when it was admitted
	// Resumed holds COMMIT when an earlier leader wrote it; members with evidence
	// of their end on disk are not among the Targets.
	Resumed *messages.AttemptRecord
}

// Foreseen: something is known of the end of an attempt. Job → Scheduler, and Coordinator → Scheduler of what is lent;
// again when it turns out otherwise. What is 0 stays as it was.
type Foreseen struct {
	Job    topology.JobID
	Token  topology.Token
	Spec   *messages.JobSpec // with its time limit as it is now
	Starts actors.Instant    // by then it has passed its barrier, or was given up
	Began  actors.Instant    // when it passed its barrier
}

// AttemptEnded: the end of an attempt is on disk. Job → Scheduler.
type AttemptEnded struct {
	Job   topology.JobID
	Token topology.Token
	End   *messages.End
}
