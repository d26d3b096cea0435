package protocol

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a leader's actors say to each other. These messages never
// cross a machine; what does is in messages/.

// Between whoever writes and the Journal.
type (
	// Lane says which of the Journal's queues a write waits in.
	Lane uint8
	// Write asks for a change to be made durable; answered by Written with the same Tag.
	Write struct {
		Change actors.Change
		Lane   Lane
		Tag    any
	}
	// Written answers Write: definite, never in doubt. Full: the submit lane takes no
	// more now and nothing was or will be written.
	Written struct {
		Tag     any
		Verdict actors.Verdict
		Full    bool
	}
	// Unwritten says that a decision is not on disk yet, and why. Written follows when it is known. Journal → Job.
	Unwritten struct {
		Tag any
		Why string
	}
)

// The lanes. Decisions never wait behind submits.
const (
	LaneDecisions Lane = iota + 1
	LaneSubmits
)

// Between Scheduler and Rack.
type (
	// Enrol: this machine said Hello and may be welcomed. Scheduler → Rack.
	Enrol struct {
		Hello *messages.Hello
		Node  *actor.PID
		Count uint64 // how often this machine was enrolled, by this leader
	}
	// Expect: this machine is in the store but not yet heard; its clock starts now.
	Expect struct{ Node topology.NodeID }
	// Expel: this machine is removed. Scheduler → Rack.
	Expel struct{ Node topology.NodeID }
	// Reported: the machine's books changed. Rack → Scheduler.
	Reported struct {
		Node        topology.NodeID
		Incarnation *messages.Incarnation
		Ledger      *messages.LedgerReport
	}
	// Lost: the reaper declared it dead. Rack → Scheduler. It may cross with a Hello
	// on its way to the rack: then its count is not that of the last enrol.
	Lost struct {
		Node        topology.NodeID
		SilentSince actors.Instant // when it was last heard
		Count       uint64         // of the enrol that the rack knew
	}
	// StrangerHeard: a machine that is dead or not enrolled spoke. Rack → Scheduler,
	// who asks it to say Hello again.
	StrangerHeard struct{ Node topology.NodeID }
)

// Target is one machine of an attempt, as the Scheduler knew it when it decided.
type Target struct {
	Node        topology.NodeID
	MachineID   string
	Incarnation *messages.Incarnation
	Vocabulary  int32 // what its agent understands
	Rack        string
	// DespiteUnwell: checks of its health fail, and the Scheduler counts on it all the same.
	DespiteUnwell bool
	Announced     *messages.Announcement // of that incarnation
	Members       []*messages.Member     // in rank order
}

// Between Scheduler and Job.
type (
	// Admit: the plan found room. Scheduler → Job, answered by declined or by what the attempt becomes.
	Admit struct {
		Token   topology.Token
		Targets []Target // in rank order
		// NoOther: the gang could never be placed without the machine where it was tried and never ran.
		NoOther bool
		// Told is what the job was told first, for the attempt's record; Promised: by a firm promise, whose room waits for
		// the word that COMMIT is on disk.
		Told     *messages.Told
		Promised bool
		// Victims were stopped for it.
		Victims []*messages.Victim
		// StartBy: it passes its barrier by then, or not at all (0: whenever it is ready); Ready: how long it has for that.
		StartBy actors.Instant
		Ready   time.Duration
		// UID is what the job's tasks run as, and UIDTurn its place among the uids that were given. 0: the job needs none, or
		// none is free.
		UID     uint32
		UIDTurn uint64
	}
	// Promised: the job has this firm promise; nil: it has none any more. Scheduler → Job, which writes it.
	Promised struct{ Promise *messages.Promise }
	// PromiseWritten: this is the firm promise in the job's record on disk; nil: none is. Job → Scheduler.
	PromiseWritten struct {
		Job     topology.JobID
		Promise *messages.Promise
		Asked   *messages.Promise // as it was asked for; it may have less time left on disk
	}
	// Redeemed: the COMMIT of a job that had a firm promise is on disk. Job → Scheduler.
	Redeemed struct{ Job topology.JobID }
	// Claim: what was set aside for an attempt when it was admitted. Scheduler → Job, who declines it if it
	// neither works at the attempt nor has its COMMIT on disk.
	Claim struct {
		Job     topology.JobID
		Token   topology.Token
		Targets []Target
	}
	// Declined: the job wants no attempt now, or does not know this one. Job → Scheduler.
	Declined struct {
		Token   topology.Token
		Targets []Target
	}
	// Rests: the job is to be planned later, and what it was given last came to nothing. Job → Scheduler.
	Rests struct {
		Job topology.JobID
		Met topology.Token // that
	}
	// Waits: put the job into the queue. Job → Scheduler.
	Waits struct {
		Record *messages.JobRecord
		Lent   time.Duration  // how long it had to start on what it was lent, where that was too short; 0: it never was
		Met    topology.Token // the last admission that had reached it; zero: none had
	}
	// Withdraws: take it out. Job → Scheduler.
	Withdraws struct{ Job topology.JobID }
	// Settled: nothing of the job is left to do; its actor ends. Job → Scheduler.
	Settled struct{ Job topology.JobID }
	// Stale: somebody else wrote the job's record; recreate its actor from disk. Job → Scheduler.
	Stale struct{ Job topology.JobID }
	// Sighted: a machine told what it has of an attempt. Scheduler → Job.
	Sighted struct {
		Node        topology.NodeID
		MachineID   string
		Incarnation *messages.Incarnation
		Vocabulary  int32
		Token       topology.Token
		Version     uint64
		Slice       *messages.SliceReport // nil: nothing
		Heard       actors.Instant        // when the machine said so
	}
	// NodeLost: the machine was declared dead. Scheduler → Job.
	NodeLost struct {
		Node        topology.NodeID
		SilentSince actors.Instant
	}
	// NodeGone: the operator says that the machine is no more. Scheduler → Job.
	NodeGone struct {
		Node      topology.NodeID
		MachineID string // only this machine of that name; empty: any
	}
	// Doubted: a machine has a later run of the job than the store knows. Scheduler → Job,
	// which gives up an attempt in the making.
	Doubted struct{ Node topology.NodeID }
	// Drains: this machine is emptied then; 0: it is not, or has no deadline. Scheduler → Job, if that warns its tasks.
	Drains struct {
		Node    topology.NodeID
		Ends    actors.Instant
		Ordered int64 // when that was, by which one drain is told from another
	}
	// MoveOff: end the attempt because of this machine. Scheduler → Job.
	MoveOff struct {
		Node   topology.NodeID
		Cause  messages.Cause
		Detail string
	}
)

// From Job and Coordinator to the Scheduler, about machines.
type (
	// Answer is a machine's word on an attempt, true from that ledger version on.
	Answer struct {
		Node        topology.NodeID
		Incarnation *messages.Incarnation // versions begin again with each
		Version     uint64
	}
	// Occupied: from these versions on the ledgers show the attempt; claims may go when they arrive.
	Occupied struct {
		Token   topology.Token
		Answers []Answer
	}
	// Vacated: nothing of the attempt is on these machines from these versions on.
	// Version 0: by the passing of time, or the machine is gone.
	Vacated struct {
		Token   topology.Token
		Answers []Answer
	}
	// Balked: the machine did not do what the plan expected of it.
	Balked struct {
		Node   topology.NodeID
		Token  topology.Token
		Reason messages.RefusalReason // UNSPECIFIED: it did not answer in time
		Detail string
		Untrue bool // no machine that keeps its books says so
		Origin *messages.Origin
		Ledger *messages.LedgerReport
	}
	// StrangeToken: a machine spoke of an attempt that its job does not know of. Job →
	// Scheduler, which knows what was ever given out.
	StrangeToken struct {
		Node        topology.NodeID
		Incarnation *messages.Incarnation
		Token       topology.Token
	}
	// Launched: these machines started what they were told to.
	Launched struct{ Nodes []topology.NodeID }
	// LaunchFailed: this one could not, or could not prepare it.
	LaunchFailed struct {
		Job         topology.JobID
		Node        topology.NodeID
		Detail      string
		Fault       messages.Fault
		Spec, Owner string        // of the job
		Rest        time.Duration // for so long the job looks elsewhere
	}
)

// Between Job and its Coordinator.
type (
	// Granted: every machine has reserved. Coordinator → Job, answered by decided or halt.
	Granted struct {
		Token    topology.Token
		Places   []*messages.Place
		Meet     *messages.Rendezvous
		DecideBy actors.Instant
		Took     time.Duration // since the first Reserve
	}
	// Decided: COMMIT is on disk. Job → Coordinator.
	Decided struct{}
	// Halt: stop working at the attempt; before COMMIT: abort it. Job → Coordinator.
	Halt struct{}
	// Aborted: the attempt never was. Coordinator → Job.
	Aborted struct{ Token topology.Token }
	// BarrierPassed: every member has started. Coordinator → Job.
	BarrierPassed struct {
		Token    topology.Token
		Prepared time.Duration // after COMMIT; 0: an earlier leader saw that begin
	}
	// Faltered: a committed attempt cannot reach its barrier. Coordinator → Job.
	Faltered struct {
		Token  topology.Token
		Cause  messages.Cause
		Detail string
		Node   topology.NodeID
	}
	// RanksGone: these members ended. Job → Coordinator.
	RanksGone struct {
		Node  topology.NodeID
		Ranks []int32
	}
)
