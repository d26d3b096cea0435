// Package actors holds the common parts of all of Synapse's actors: their names, times, states and supervisor. It also
// holds the ports, through which actors have effects outside. Package leader holds the actors of a leading scheduler,
// worker those of a node, and mirror the actor that answers readers. An actor never blocks: it sends a slow operation
// to a port, and the result returns as a message.
package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the ports. Production implements them with gRPC, SQL, files and supervisors, and the simulator with
// virtual ones. The actors cannot tell them apart. There is no other difference between production and simulation.

// Instant is a reading of a process's monotonic clock, in nanoseconds. Instants of different processes cannot be
// compared.
type Instant int64

// Plus returns the instant d later.
func (i Instant) Plus(d time.Duration) Instant { return i + Instant(d) }

// Since returns the time from o to i.
func (i Instant) Since(o Instant) time.Duration { return time.Duration(i - o) }

// Clock returns the time and schedules messages to actors. A timer cannot be cancelled. Its message must contain enough
// data for the actor to recognize a stale timer.
type Clock interface {
	Now() Instant
	// WallMs returns Unix time in milliseconds, for records and for people only.
	WallMs() int64
	After(d time.Duration, to *actor.PID, message any)
}

// Kind is a type of actor. It names the actor's states in the documentation and its Props at the host.
type Kind string

// These are the kinds of actors.
const (
	KindRoot        Kind = "root"
	KindScheduler   Kind = "scheduler"
	KindCoordinator Kind = "coordinator"
	KindJob         Kind = "job"
	KindArray       Kind = "array"
	KindRack        Kind = "rack"
	KindJournal     Kind = "journal"
	KindMirror      Kind = "mirror"
	KindNode        Kind = "node"
	KindTask        Kind = "task"
)

// Host is the process that the actors run in. All Props come from it, because they differ between production and
// simulation.
type Host interface {
	Props(kind Kind, make actor.Producer) *actor.Props
	// Panicked reports a broken invariant in an actor. If fatal is true, the process must exit and restart from disk.
	// Otherwise the actor has been stopped.
	Panicked(who *actor.PID, reason any, fatal bool)
	// Deposed reports that this process no longer leads. The process exits or becomes a standby.
	Deposed(epoch uint64)
	// Moved reports every transition of a state machine.
	Moved(kind Kind, from, event, to string)
	// Count adds to a counter for operators. The names are constants of this package.
	Count(name string, n int64)
	// Took adds a duration of a steady clock to a distribution for operators. No decision depends on it.
	Took(name string, d time.Duration)
}

// Passage is a completed phase of an attempt before the end of the barrier.
type Passage struct {
	Job     topology.JobID
	Token   topology.Token
	Run     int32
	Phase   string
	Event   string        // event that ended the phase
	GivenUp bool          // the attempt did not complete the phase
	Took    time.Duration // measured by a steady clock
}

// Change is one transaction of the store. It becomes durable completely or not at all, and only while the writer's
// epoch is still the leader's.
type Change struct {
	// Job, if set, is written if its revision is one more than the stored one. It is also written if the stored record
	// comes from the same write, which was then repeated.
	Job *messages.JobRecord
	// Attempts are written together with Job.
	Attempts []*messages.AttemptRecord
	// Node, if set, is written by the same rule as Job. An unreadable stored record counts as none.
	Node *messages.NodeRecord
	// Policy, if set, is the only content of the change, and replaces the earlier one.
	Policy *messages.PolicyRecord
	// Learned lists the attempts that Policy includes for the first time. The store does not return them to later leaders.
	Learned []topology.Token
	// Queues, if set, is the only content of the change, and replaces the earlier one.
	Queues *messages.QueuesRecord
	// Drop, if set, is the only content of the change. It deletes a job with an unreadable record. Only the fact that its
	// ID was used is kept.
	Drop topology.JobID
}

// Verdict is the result of one Change.
type Verdict uint8

// These are the verdicts. The zero value is not a verdict.
const (
	Done     Verdict = iota + 1 // it is on disk
	Conflict                    // not written: the stored revision differs
)

// Applied is the store's answer to Apply.
type Applied struct {
	Ticket   uint64
	Verdicts []Verdict // one per change, when Err is empty
	// Deposed reports that the epoch is no longer the leader's, and that nothing was written.
	Deposed bool
	// Err, if set, means that it is unknown whether anything was written.
	Err string
}

// Loaded is the store's answer to Load: all live state, and a part of the finished jobs.
type Loaded struct {
	Jobs     []*messages.JobRecord     // live, and finished ones with unconfirmed allocations
	Attempts []*messages.AttemptRecord // of those jobs: the latest, and earlier ones with unconfirmed allocations
	Nodes    []*messages.NodeRecord
	Arrival  uint64 // the highest ever used
	UIDTurn  uint64 // the highest ever used
	Ended    []Ended
	Policy   *messages.PolicyRecord // nil: there is no readable one
	// Unlearned lists the ended attempts that ran and that Policy does not include, with their jobs, in the order of their
	// tokens.
	Unlearned []Ended
	Queues    *messages.QueuesRecord // nil: none are configured, or the record is unreadable
	Damaged   []Damaged              // unreadable records
	Deposed   bool
	Err       string
}

// Damaged names the subject of an unreadable record: a job, for its own record or that of an attempt, or a node.
type Damaged struct {
	Job   topology.JobID
	Owner string // of the job, if known
	Node  topology.NodeID
	// Policy reports that the statistics are unreadable.
	Policy bool
	// Queues reports that the configuration of the queues is unreadable.
	Queues bool
	What   string
	Over   bool // the job has finished, and is only missing in the history
}

// Ended is a finished job whose exits are all confirmed, with its latest attempt if it had one. A store returns some of
// the newest, for readers only. In Unlearned, it is an ended attempt with its job.
type Ended struct {
	Job     *messages.JobRecord
	Attempt *messages.AttemptRecord
}

// Query asks the store for one job: by its ID, or by the request that created it.
type Query struct {
	Ticket    uint64
	Job       topology.JobID
	Token     topology.Token // of an attempt that may have been lost; zero: none
	Owner     string
	RequestID string
}

// Found answers a Query. Job is nil if there is none.
type Found struct {
	Query    Query
	Job      *messages.JobRecord
	Attempts []*messages.AttemptRecord // as in Loaded
	Pruned   bool                      // the job existed, but its records were deleted after it had finished
	Has      bool                      // the requested attempt was committed here
	Damaged  string                    // error of an unreadable record of the job
	Err      string
}

// Store is the leader's durable storage. Each call is answered by one message.
type Store interface {
	Load(epoch uint64, to *actor.PID)
	Find(query Query, to *actor.PID)
	Apply(epoch, ticket uint64, changes []Change, to *actor.PID)
}

// DiskLoaded is the ledger disk's answer to Load. Data is nil if there is no record yet.
type DiskLoaded struct {
	Data []byte
	Err  string
}

// DiskSaved is the ledger disk's answer to Save.
type DiskSaved struct {
	Seq uint64
	Err string // the disk holds a complete record, either an older one or this one
}

// Disk stores the ledger record of one node. Each version replaces the last one atomically and is durable before the
// answer. The data belongs to the Disk until the answer. The Disk must not keep it afterwards.
type Disk interface {
	Load(to *actor.PID)
	Save(seq uint64, data []byte, to *actor.PID)
	// Quarantine sets the present record aside for inspection.
	Quarantine()
}

// Launcher runs containers. Its commands and answers are the driver contract in messages/launcher.proto.
type Launcher interface {
	Tell(command any, answerTo *actor.PID)
}

// Peers turns names into addresses. Addresses are logical, and the same in production and simulation.
type Peers interface {
	Node(id topology.NodeID) *actor.PID
}

// Ports holds the interfaces that a process gives to all its actors.
type Ports struct {
	System    *actor.ActorSystem
	Host      Host
	Clock     Clock
	Log       Log
	Constants Constants
	// Aside runs a long function that decides nothing, at low priority, and returns after it. If Aside is nil, the caller
	// runs the function itself.
	Aside func(run func())
	// Ahead runs a short function that other work waits for, at high priority, and returns after it. If Ahead is nil, the
	// caller runs the function itself.
	Ahead func(run func())
}
