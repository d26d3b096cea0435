// Package actors holds what all of Synapse's actors have in common: the ports
// through which they touch the world, their names, times and states, and how a
// process brings them up. Those of a scheduler that leads are in leader, those of
// a machine in worker, the one that readers ask in mirror. An actor never blocks:
// what takes time is asked of a port and comes back as a message.
package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the ports. Production passes ones over gRPC, SQL, files and
// supervisors, the simulator virtual ones; the actors cannot tell them apart,
// and there is no other difference between the two.

// Instant is a reading of a process's monotonic clock, in nanoseconds. It says
// nothing about another process's clock.
type Instant int64

// Plus moves an instant.
func (i Instant) Plus(d time.Duration) Instant { return i + Instant(d) }

// Since is the time from o to i.
func (i Instant) Since(o Instant) time.Duration { return time.Duration(i - o) }

// Clock tells the time and wakes actors. There is no way to take a timer back:
// its message carries what lets the actor see that it is stale.
type Clock interface {
	Now() Instant
	// WallMs is Unix time in milliseconds, for records and people only.
	WallMs() int64
	After(d time.Duration, to *actor.PID, message any)
}

// Kind is a sort of actor; it names its states in the docs and its Props at the host.
type Kind string

// The kinds of actors.
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

// Host is the process the actors live in. Every Props comes from it, because
// that is where production and simulation differ.
type Host interface {
	Props(kind Kind, make actor.Producer) *actor.Props
	// Panicked is told of a broken invariant in an actor. Where fatal, the process
	// must exit and come back from disk; else the actor has been stopped.
	Panicked(who *actor.PID, reason any, fatal bool)
	// Deposed is told that this process no longer leads: it exits or stands by.
	Deposed(epoch uint64)
	// Moved is told of every step of a state machine.
	Moved(kind Kind, from, event, to string)
	// Count adds to a counter for operators; names are constants of this package.
	Count(name string, n int64)
	// Took adds a duration of a steady clock to a distribution for operators; nothing is decided by it.
	Took(name string, d time.Duration)
}

// Passage is a phase of an attempt on its way to the barrier that is over.
type Passage struct {
	Job     topology.JobID
	Token   topology.Token
	Run     int32
	Phase   string
	Event   string        // what ended it
	GivenUp bool          // the attempt did not get through it
	Took    time.Duration // of a steady clock
}

// Change is one transaction of the store: it becomes durable as a whole or not
// at all, and only while the writer's epoch is still the leader's.
type Change struct {
	// Job, if any, is written if its revision is one more than the stored one,
	// or if the stored record was written by this same write (a repeated one).
	Job *messages.JobRecord
	// Attempts are put together with Job.
	Attempts []*messages.AttemptRecord
	// Node, if any, is written by the same rule as Job; a stored record that cannot be
	// read counts as none.
	Node *messages.NodeRecord
	// Policy, if any, stands alone, and takes the place of an earlier one.
	Policy *messages.PolicyRecord
	// Learned are the attempts that Policy knows of for the first time: no leader is
	// handed them again.
	Learned []topology.Token
	// Queues, if any, stands alone, and takes the place of an earlier one.
	Queues *messages.QueuesRecord
	// Drop, if any, stands alone: of this job, a record of which cannot be read, only
	// that its id was used is kept.
	Drop topology.JobID
}

// Verdict says how one Change ended.
type Verdict uint8

// The verdicts. The zero is none of them.
const (
	Done     Verdict = iota + 1 // it is on disk
	Conflict                    // another revision is there: not written
)

// Applied is the store's answer to Apply.
type Applied struct {
	Ticket   uint64
	Verdicts []Verdict // one per change, when Err is empty
	// Deposed: the epoch is no longer the leader's; nothing was written.
	Deposed bool
	// Err: whether anything was written is in doubt.
	Err string
}

// Loaded is the store's answer to Load: all that is not over, and a little of what is.
type Loaded struct {
	Jobs     []*messages.JobRecord     // live, and terminal ones whose attempts lack evidence
	Attempts []*messages.AttemptRecord // of those jobs: the latest, and earlier ones that lack evidence
	Nodes    []*messages.NodeRecord
	Arrival  uint64 // the highest ever used
	UIDTurn  uint64 // likewise
	Ended    []Ended
	Policy   *messages.PolicyRecord // nil: there is none that can be read
	// Unlearned are the attempts that ended after they had run, with their jobs, and that
	// Policy does not know: in the order of their tokens.
	Unlearned []Ended
	Queues    *messages.QueuesRecord // nil: nobody has described any, or it cannot be read
	Damaged   []Damaged              // what is in none of these
	Deposed   bool
	Err       string
}

// Damaged names the subject of an unreadable record: a job, for its own record or that of an attempt, or a node.
type Damaged struct {
	Job   topology.JobID
	Owner string // of the job, as far as it is known
	Node  topology.NodeID
	// Policy: it is neither, but what was learned.
	Policy bool
	// Queues: the description of the queues.
	Queues bool
	What   string
	Over   bool // the job is over, and only missing in what is told of the past
}

// Ended is a job that is over and lacks no evidence, with its latest attempt if it
// had one. A store hands out the newest of them, for readers alone; it may hand
// out none. As one of Unlearned it is an attempt that ended, with its job.
type Ended struct {
	Job     *messages.JobRecord
	Attempt *messages.AttemptRecord
}

// Query asks the store for one job: by its id, or by the request that made it.
type Query struct {
	Ticket    uint64
	Job       topology.JobID
	Token     topology.Token // of an attempt of it that may have been lost; zero: none
	Owner     string
	RequestID string
}

// Found answers a Query; Job is nil when there is none.
type Found struct {
	Query    Query
	Job      *messages.JobRecord
	Attempts []*messages.AttemptRecord // as in Loaded
	Pruned   bool                      // there was such a job: it was over, and is forgotten
	Has      bool                      // the attempt that was asked for was committed here
	Damaged  string                    // there is such a job, and what is wrong with a record of it
	Err      string
}

// Store is the leader's durable memory. Each call is answered by one message.
type Store interface {
	Load(epoch uint64, to *actor.PID)
	Find(query Query, to *actor.PID)
	Apply(epoch, ticket uint64, changes []Change, to *actor.PID)
}

// DiskLoaded is the ledger disk's answer to Load; Data is nil when there is none yet.
type DiskLoaded struct {
	Data []byte
	Err  string
}

// DiskSaved is its answer to Save.
type DiskSaved struct {
	Seq uint64
	Err string // nothing is known of what the disk holds, but that it is a whole older or this version
}

// Disk keeps one machine's ledger record: whole versions, replaced atomically
// and durable before the answer. What is to be saved is the Disk's until then,
// and not to be kept after it.
type Disk interface {
	Load(to *actor.PID)
	Save(seq uint64, data []byte, to *actor.PID)
	// Quarantine puts what is there aside for people to look at.
	Quarantine()
}

// Launcher runs containers. What is told to it and what it answers is the
// driver contract of messages/launcher.proto.
type Launcher interface {
	Tell(command any, answerTo *actor.PID)
}

// Peers turns names into addresses. Addresses are logical and the same in
// production and simulation.
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
	// Aside runs what may take long and decides nothing, in the way of nobody else, and returns when it is over; nil:
	// there is no such place.
	Aside func(run func())
	// Ahead runs what is short and everybody waits for before all else on this machine, and returns when it is over; nil:
	// there is no such way.
	Ahead func(run func())
}
