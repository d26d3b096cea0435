package protocol

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the messages of a Job about itself, and the actors that a Job needs.

type (
	// Concluded reports that a job's final state is on disk. Job → Scheduler.
	Concluded struct {
		Job   topology.JobID
		State messages.JobState
		Since int64 // when it started
	}
	// HasStarted reports that the start of a job is on disk. Job → Scheduler.
	HasStarted struct {
		Job      topology.JobID
		AtUnixMs int64
	}
	// Foregone reports the start or the end of a job that this one depends on. Scheduler → Job.
	Foregone struct{ Known *messages.AfterKnown }
)

// JobPeers holds the actors of the process to which a Job sends messages.
type JobPeers struct{ Scheduler, Journal, Mirror *actor.PID }

// Debtors returns the nodes that lack exit evidence of an attempt, each once.
func Debtors(a *messages.AttemptRecord) []string {
	var names []string
	for _, p := range a.Places {
		if p.Exit == nil && (len(names) == 0 || names[len(names)-1] != p.Node) {
			names = append(names, p.Node)
		}
	}
	return names
}

// Acknowledge asks a Job to answer the clients that submitted it, after its first messages. The Mirror then knows the
// job before its client can query it. The Scheduler knows that the job waits before the client can submit another, so
// the job that was acknowledged first is planned first. Scheduler → Job, Array.
type Acknowledge struct {
	Clients []*actor.PID
	Reply   *messages.SubmitReply
}

func (m Acknowledge) Say(ctx actor.Context) {
	for _, pid := range m.Clients {
		ctx.Send(pid, m.Reply)
	}
}

// LacksUID reports that the job waits because no UID is free, with the reason. An empty reason ends this wait.
// Scheduler → Job.
type LacksUID struct{ Why string }

// The rest of this section owns the messages among a Job, its Coordinators and the Scheduler about one attempt.

// AttemptPlan describes the attempt that a Coordinator starts.
type AttemptPlan struct {
	Job     topology.JobID
	Token   topology.Token
	Run     int32
	Spec    *messages.JobSpec
	UID     uint32              // of its tasks; 0: none was assigned
	Owner   *messages.Principal // of the job
	Targets []Target
	StartBy actors.Instant // start deadline of a backfilled attempt; 0: none
	Ready   time.Duration  // time until then at its admission
	// Resumed holds the attempt's record if an earlier leader wrote COMMIT. Members whose end is on disk are not among the
	// Targets.
	Resumed *messages.AttemptRecord
	// Inherited is set if the attempt continues another one in place.
	Inherited *messages.Inherited
	// Before is the attempt before, if nodes of it are replaced. The others keep their places. Meet is the port for rank 0
	// on its node, if that node is kept.
	Before *messages.AttemptRecord
	Meet   int32
}

// Foreseen reports known facts about the end of an attempt. Job → Scheduler, and Coordinator → Scheduler for a
// backfilled attempt. It is repeated when a fact changes. Zero fields mean no change.
type Foreseen struct {
	Job    topology.JobID
	Token  topology.Token
	Spec   *messages.JobSpec // with its present time limit
	Starts actors.Instant    // the barrier is passed or given up by then
	Began  actors.Instant    // when the barrier was passed
	Saved  actors.Instant    // when the gang last acknowledged a checkpoint that is on disk
}

// AttemptEnded reports that the end of an attempt is on disk. Job → Scheduler.
type AttemptEnded struct {
	Job   topology.JobID
	Token topology.Token
	End   *messages.End
	Saved *messages.Saved // nil: none of its checkpoints was acknowledged
	// Before is how long earlier attempts in this place have run.
	Before time.Duration
}

// The rest of this section owns exits as nodes report them, and their times.

// ToldExits holds the exits of a node's report and the time of the report.
type ToldExits struct {
	Exits  []*messages.Exit
	AgesMs []int64 // an older agent does not report ages
	At     actors.Instant
}

// Ended returns when an exit happened, by this process's clock: the time of the report minus the exit's age.
func (t ToldExits) Ended(i int) actors.Instant {
	if i >= len(t.AgesMs) {
		return t.At
	}
	return t.At.Plus(-actors.Millis(min(max(t.AgesMs[i], 0), maxExitAgeMs)))
}

// Told returns the exits in a node's report of an attempt.
func (m Sighted) Told() ToldExits {
	return ToldExits{m.Allocation.GetExits(), m.Allocation.GetExitAgesMs(), m.Heard}
}

// maxExitAgeMs is one year, longer than any report is delayed.
const maxExitAgeMs = 365 * 24 * 3600 * 1000

// The rest of this file owns the messages that stop a job for another one, or spare it.

type (
	// Preempt asks a Job to stop this attempt for another job whose guarantee on disk names it. Scheduler → Job.
	Preempt struct {
		Token topology.Token
		For   *messages.Preemption
	}
	// Spared reports that the attempt need not be stopped, if its end is not on its way to disk yet. Scheduler → Job.
	Spared struct {
		Token topology.Token
		For   topology.JobID
	}
)

// IsInside reports whether an attempt was stopped for another job of its own queue. Only such preemptions are limited
// in number and frequency; reclaims between queues are not.
func IsInside(end *messages.End) bool {
	switch end.GetPreemption().GetRule() {
	case messages.PreemptionRule_PREEMPTION_RULE_PRIORITY, messages.PreemptionRule_PREEMPTION_RULE_SHORTEST:
		return true
	}
	return false
}
