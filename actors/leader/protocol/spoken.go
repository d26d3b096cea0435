package protocol

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the messages between a leader's actors. They never leave the process. Messages between processes are
// in messages/.

// These messages pass between a writer and the Journal.
type (
	// Lane names the queue of the Journal that a write waits in.
	Lane uint8
	// Write requests a durable change. It is answered by Written with the same Tag.
	Write struct {
		Change actors.Change
		Lane   Lane
		Tag    any
	}
	// Written answers Write with a definite result. Full means that the submit lane is full and that nothing was or will
	// be written.
	Written struct {
		Tag     any
		Verdict actors.Verdict
		Full    bool
	}
	// Unwritten reports that a decision is not on disk yet, and why. Written follows when the result is known. Journal →
	// Job.
	Unwritten struct {
		Tag any
		Why string
	}
)

// These are the lanes. Decisions never wait behind submits.
const (
	LaneDecisions Lane = iota + 1
	LaneSubmits
)

// These messages pass between the Scheduler and a Rack.
type (
	// Enrol reports that this node sent Hello and may be welcomed. Scheduler → Rack.
	Enrol struct {
		Hello *messages.Hello
		Node  *actor.PID
		Count uint64 // how often this leader has enrolled this node
	}
	// Examine asks for a run of all health checks of a node, because it is suspected. Scheduler → Rack.
	Examine struct {
		Node   topology.NodeID
		Number uint64
	}
	// Expect adds a node that is in the store but not heard yet. Its silence counts from now. Scheduler → Rack.
	Expect struct{ Node topology.NodeID }
	// Expel removes this node. Scheduler → Rack.
	Expel struct{ Node topology.NodeID }
	// Reported passes on the changed ledger of a node. Rack → Scheduler.
	Reported struct {
		Node        topology.NodeID
		Incarnation *messages.Incarnation
		Ledger      *messages.LedgerReport
	}
	// Lost reports that the node was declared dead. Rack → Scheduler. It may cross a Hello that is on its way to the Rack.
	// Its count then differs from that of the last Enrol.
	Lost struct {
		Node        topology.NodeID
		SilentSince actors.Instant // when it was last heard
		Count       uint64         // of the Enrol that the Rack knew
	}
	// StrangerHeard reports a message of a node that is dead or not enrolled. Rack → Scheduler, which asks the node to
	// repeat its Hello.
	StrangerHeard struct{ Node topology.NodeID }
)

// Target is one node of an attempt, as the Scheduler knew it at the admission.
type Target struct {
	Node        topology.NodeID
	MachineID   string
	Incarnation *messages.Incarnation
	Vocabulary  int32 // features of its agent
	Rack        string
	// DespiteUnhealthy requests a reservation although health checks of the node fail.
	DespiteUnhealthy bool
	Announced        *messages.Announcement // of that incarnation
	Members          []*messages.Member     // in rank order
	Kept             bool                   // it keeps the resources of the attempt before
}

// These messages pass between the Scheduler and a Job.
type (
	// Admit reports that the planner found a placement. Scheduler → Job, answered by Declined or by the attempt's
	// progress.
	Admit struct {
		Token   topology.Token
		Targets []Target // in rank order
		Spares  []*messages.Spare
		// NoOther reports that the gang cannot be placed without the node where it was tried and never ran.
		NoOther bool
		// Told is the first estimate of the job's start, for the attempt's record. Promised reports that the job had a start
		// guarantee, whose nodes stay reserved until COMMIT is on disk.
		Told     *messages.Told
		Promised bool
		// Victims lists the attempts that were preempted for the job.
		Victims []*messages.Victim
		// StartBy is the start deadline of a backfilled attempt; 0 means none. Ready is the time until then.
		StartBy actors.Instant
		Ready   time.Duration
		// UID is the UID of the job's tasks, and UIDTurn its position among the assigned UIDs. A UID of 0 means that the job
		// needs none, or that none is free.
		UID     uint32
		UIDTurn uint64
	}
	// Promised reports the job's start guarantee, or nil if it has none any more. Scheduler → Job, which writes it.
	Promised struct{ Promise *messages.Promise }
	// PromiseWritten reports the start guarantee in the job's record on disk, or nil if there is none. Job → Scheduler.
	PromiseWritten struct {
		Job     topology.JobID
		Promise *messages.Promise
		Asked   *messages.Promise // as requested; the one on disk may have less time left
	}
	// Redeemed reports that COMMIT of a job with a start guarantee is on disk. Job → Scheduler.
	Redeemed struct{ Job topology.JobID }
	// Claim asks about the capacity that was claimed for an attempt at its admission. Scheduler → Job, which declines it
	// unless it works on the attempt or has its COMMIT on disk.
	Claim struct {
		Job     topology.JobID
		Token   topology.Token
		Targets []Target
	}
	// Declined reports that the job wants no attempt now, or does not know this one. Job → Scheduler.
	Declined struct {
		Job     topology.JobID
		Token   topology.Token
		Targets []Target
		Unknown bool // COMMIT of the attempt is not on disk and will not be
	}
	// Rests reports that the job will be planned later, and that its last admission led to nothing. Job → Scheduler.
	Rests struct {
		Job topology.JobID
		Met topology.Token // that admission
	}
	// Waits asks the Scheduler to put the job into the queue. Job → Scheduler.
	Waits struct {
		Record *messages.JobRecord
		Lent   time.Duration  // the longest backfill start deadline that was too short; 0: none
		Met    topology.Token // the last admission that reached the job; zero: none
	}
	// Withdraws asks the Scheduler to remove the job from the queue. Job → Scheduler.
	Withdraws struct{ Job topology.JobID }
	// Settled reports that nothing of the job is left to do. Its actor ends. Job → Scheduler.
	Settled struct{ Job topology.JobID }
	// Stale reports that another writer changed the job's record. The Scheduler recreates the actor from disk. Job →
	// Scheduler.
	Stale struct{ Job topology.JobID }
	// Sighted reports the state of an attempt on a node. Scheduler → Job.
	Sighted struct {
		Node        topology.NodeID
		MachineID   string
		Incarnation *messages.Incarnation
		Vocabulary  int32
		Token       topology.Token
		Version     uint64
		Allocation  *messages.SliceReport // nil: the node holds nothing
		Heard       actors.Instant        // when the node reported it
	}
	// NodeLost reports that the node was declared dead. Scheduler → Job.
	NodeLost struct {
		Node        topology.NodeID
		SilentSince actors.Instant
	}
	// NodeGone reports the operator's statement that the node no longer exists. Scheduler → Job.
	NodeGone struct {
		Node      topology.NodeID
		MachineID string // only the machine with this ID; empty: any
	}
	// Doubted reports that a node has a later run of the job than the store. Scheduler → Job, which gives up an attempt
	// before COMMIT.
	Doubted struct{ Node topology.NodeID }
	// SignalIdle sets how long a running job does nothing before its tasks are notified. 0: never, which is the default.
	// Scheduler → Job.
	SignalIdle struct{ After time.Duration }

	// ProgressHeard reports the progress of an attempt on one node, and the ranks there that make none. Rack → Job.
	ProgressHeard struct {
		Node     topology.NodeID
		Progress *messages.AttemptProgress
	}
	// Drains reports when this node will be drained; 0 means that it will not, or without a deadline. Scheduler → Job, if
	// the job warns its tasks.
	Drains struct {
		Node    topology.NodeID
		Ends    actors.Instant
		Ordered int64 // time of the order, which distinguishes drains
	}
	// MoveOff asks the Job to end the attempt because of this node. Scheduler → Job.
	MoveOff struct {
		Node   topology.NodeID
		Cause  messages.Cause
		Detail string
	}
)

// These messages go from Job and Coordinator to the Scheduler, and concern nodes.
type (
	// Answer is a node's answer about an attempt, true from that ledger version on.
	Answer struct {
		Node        topology.NodeID
		Incarnation *messages.Incarnation // versions restart with each incarnation
		Version     uint64
	}
	// Occupied reports that ledgers show the attempt from these versions on. The claims may be dropped when these ledgers
	// arrive.
	Occupied struct {
		Token   topology.Token
		Answers []Answer
	}
	// Vacated reports that the attempt holds nothing on these nodes from these versions on. Version 0 means that the time
	// has passed, or that the node is gone.
	Vacated struct {
		Token   topology.Token
		Answers []Answer
	}
	// Balked reports that the node did not do what the plan expected.
	Balked struct {
		Node   topology.NodeID
		Token  topology.Token
		Reason messages.RefusalReason // UNSPECIFIED: it did not answer in time
		Detail string
		Untrue bool // a correct node never sends such an answer
		Origin *messages.Origin
		Ledger *messages.LedgerReport
	}
	// StrangeToken reports that a node named an attempt that its job does not know. Job → Scheduler, which knows all
	// tokens that it has issued.
	StrangeToken struct {
		Node        topology.NodeID
		Incarnation *messages.Incarnation
		Token       topology.Token
	}
	// Launched reports that these nodes started their tasks.
	Launched struct{ Nodes []topology.NodeID }
	// LaunchFailed reports that this node could not launch or prepare a task.
	LaunchFailed struct {
		Job         topology.JobID
		Node        topology.NodeID
		Detail      string
		Fault       messages.Fault
		Spec, Owner string        // of the job
		Rest        time.Duration // how long the job avoids the node
	}
)

// These messages pass between a Job and its Coordinator.
type (
	// Granted reports that every node has reserved. Coordinator → Job, answered by Decided or Halt.
	Granted struct {
		Token    topology.Token
		Places   []*messages.Place
		Meet     *messages.Rendezvous
		DecideBy actors.Instant
		Took     time.Duration // since the first Reserve
	}
	// Decided reports that COMMIT is on disk. Job → Coordinator.
	Decided struct{}
	// Halt ends the work on the attempt. Before COMMIT, the Coordinator aborts it. Job → Coordinator.
	Halt struct{}
	// Aborted reports that the attempt was given up before COMMIT. Coordinator → Job.
	Aborted struct{ Token topology.Token }
	// BarrierPassed reports that every member has started. Coordinator → Job.
	BarrierPassed struct {
		Token    topology.Token
		Prepared time.Duration // after COMMIT; 0: an earlier leader wrote COMMIT
	}
	// Faltered reports that a committed attempt cannot reach its barrier. Coordinator → Job.
	Faltered struct {
		Token  topology.Token
		Cause  messages.Cause
		Detail string
		Node   topology.NodeID
	}
	// RanksGone reports that these members have ended. Job → Coordinator.
	RanksGone struct {
		Node  topology.NodeID
		Ranks []int32
	}
)
