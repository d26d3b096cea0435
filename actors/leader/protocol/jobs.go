package protocol

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a Job says of itself, and whom it speaks to.

type (
	// Concluded: a job's terminal state is on disk. Job → Scheduler.
	Concluded struct {
		Job   topology.JobID
		State messages.JobState
	}
	// Foregone: a job that this one waits for has ended so. Scheduler → Job.
	Foregone struct{ Known *messages.AfterKnown }
)

// JobPeers names whom a Job speaks to in its process.
type JobPeers struct{ Scheduler, Journal, Mirror *actor.PID }

// Debtors are the machines an attempt lacks evidence from, each once.
func Debtors(a *messages.AttemptRecord) []string {
	var names []string
	for _, p := range a.Places {
		if p.Exit == nil && (len(names) == 0 || names[len(names)-1] != p.Node) {
			names = append(names, p.Node)
		}
	}
	return names
}

// Acknowledge: those who submitted the job are told so, by its own actor, behind its first words. By then the Mirror
// knows the job, whatever its client asks next, and the Scheduler has heard that it waits before the client can submit
// another: of two jobs the one that was acknowledged first is planned first. Scheduler → Job, Array.
type Acknowledge struct {
	Clients []*actor.PID
	Reply   *messages.SubmitReply
}

func (m Acknowledge) Say(ctx actor.Context) {
	for _, pid := range m.Clients {
		ctx.Send(pid, m.Reply)
	}
}

// LacksUID: the job waits because no uid is free, for this reason; empty: it waits for that no longer. Scheduler → Job.
type LacksUID struct{ Why string }

// What follows owns what a Job, its Coordinators and the Scheduler say of one attempt.

// AttemptPlan gives a Coordinator its work.
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

// What follows owns what a machine tells of exits, and when they were.

// ToldExits are exits as a machine told of them, and when that was.
type ToldExits struct {
	Exits  []*messages.Exit
	AgesMs []int64 // an earlier version does not say
	At     actors.Instant
}

// Ended is when one came, by our own clock: counted back from when it was told of.
func (t ToldExits) Ended(i int) actors.Instant {
	if i >= len(t.AgesMs) {
		return t.At
	}
	return t.At.Plus(-actors.Millis(min(max(t.AgesMs[i], 0), maxExitAgeMs)))
}

// Told are the exits in what a machine has.
func (m Sighted) Told() ToldExits {
	return ToldExits{m.Slice.GetExits(), m.Slice.GetExitAgesMs(), m.Heard}
}

// maxExitAgeMs is a year: longer than anything waits to be told.
const maxExitAgeMs = 365 * 24 * 3600 * 1000

// What follows owns how a job is told to give way to another, and that it need not.

type (
	// Preempt: stop this attempt for another job, whose promise on disk says so. Scheduler → Job.
	Preempt struct {
		Token topology.Token
		For   *messages.Preemption
	}
	// Spared: it need not be, if its end is not on its way to disk yet. Scheduler → Job.
	Spared struct {
		Token topology.Token
		For   topology.JobID
	}
)

// IsInside reports whether an attempt was stopped for another job of its queue. How often and how soon again that may
// be is bounded; what is taken back minds neither.
func IsInside(end *messages.End) bool {
	switch end.GetPreemption().GetRule() {
	case messages.PreemptionRule_PREEMPTION_RULE_PRIORITY, messages.PreemptionRule_PREEMPTION_RULE_SHORTEST:
		return true
	}
	return false
}
