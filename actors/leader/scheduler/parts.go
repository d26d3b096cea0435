package scheduler

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns the parts of a Scheduler. A part owns a few fields and embeds the parts that it uses. The compiler
// prevents access to other fields. A method belongs to the lowest part that has all it needs. The Scheduler has the
// methods that combine the parts.
//
// In a single type with all fields, any of 270 methods could change any field, and a reader of one method would have to
// read the others. The cost of this design: a part is a pointer, and a method is found under the name of its part.

// base holds the fields that every part uses.
type base struct {
	p      *protocol.Ports
	levels []string
	self   *actor.PID
	peers  protocol.JobPeers
	tokens uint64 // number of attempts in this epoch
	lives  uint64 // number of record writers, which distinguishes two writers
}

// jobTable holds the live jobs.
type jobTable struct {
	*base
	jobs      map[topology.JobID]*livingJob
	requests  map[requestKey]*livingJob
	damaged   map[topology.JobID]*damagedJob
	followers map[topology.JobID][]topology.JobID // the jobs that wait for a job to end
	throttles map[topology.JobID]*throttle        // of arrays
	owners    owners
}

// nodeTable holds the nodes, and the view of their free capacity.
type nodeTable struct {
	*base
	makers   Makers
	view     *belief.View
	machines map[topology.NodeID]*machine
	order    []*machine // in order of arrival
	racks    map[string]*actor.PID
	awaited  int            // nodes in the store that this leader has not heard yet
	rules    map[string]int // number of nodes with each account rule
	suspects suspects
}

// uidPool assigns UIDs to jobs (uids.go).
type uidPool struct {
	*base
	uids    *topology.UIDs
	uidTurn uint64 // number of the last assigned UID
	uidless uidless
}

// waitCounts counts the waiting jobs (check.go).
type waitCounts struct {
	*base
	*jobTable
	waiting waitingJobs
}

// storeQueries holds the open queries to the store (find.go).
type storeQueries struct {
	*base
	finds   map[uint64]find
	tickets uint64
}

// evidence compares the allocations on nodes with the store (behind.go).
type evidence struct {
	*base
	*nodeTable
	*jobTable
	*storeQueries
	behind behind
}

// greeter greets nodes with the leader's epoch (links.go).
type greeter struct {
	*base
	greetings greetings
	early     []topology.NodeID // links that came before the store was read
}

// learner holds the run-time statistics (learning.go).
type learner struct {
	*base
	*nodeTable
	learning learning
}

// planning holds the queue and the planner (plan.go).
type planning struct {
	*base
	*nodeTable
	*jobTable
	states  actors.States[schedulerState]
	queue   *policy.Queue
	planner policy.Planner
	planDue bool           // a pass is requested
	wakeAt  actors.Instant // timer for the end of a waiting job's topology wait
	swaps   swaps
	// admitting is true while a pass admits jobs. unsettled has the nodes whose claims by spares have changed in that
	// time.
	admitting bool
	unsettled []*machine
}

// lookahead knows the expected ends of running attempts (foresight.go).
type lookahead struct {
	*base
	*nodeTable
	*jobTable
	*learner
	*planning
	foresight foresight
}

// capacity updates the view of free capacity, and requests a pass after a change.
type capacity struct {
	*base
	*nodeTable
	*jobTable
	*planning
	*lookahead
}

// shares applies the configured queues to planning (queues.go).
type shares struct {
	*base
	*nodeTable
	*jobTable
	*learner
	*planning
	*lookahead
	queues described
}

// drains closes nodes at the time that an operator has set (drain.go).
type drains struct {
	*base
	*nodeTable
	*jobTable
	*planning
	closings []closing // nodes that close later, earliest first
}

// promises writes the start guarantees, and stops jobs for them (promises.go).
type promises struct {
	*base
	*nodeTable
	*jobTable
	*planning
	preempters map[topology.JobID]*livingJob // jobs for which others are stopped
}

// teller sends the Mirror the reasons and estimates of waiting jobs (shown.go, figures.go).
type teller struct {
	*base
	*nodeTable
	*jobTable
	*learner
	*planning
	*lookahead
	showing showing
	telling telling
	starts  startsTelling
	wants   wantsTelling
}

// New returns the Scheduler of a leader that has not read its store yet.
func New(p *protocol.Ports, makers Makers) actor.Actor {
	uids := topology.NewUIDs(p.UIDs)
	b := &base{p: p, levels: p.Levels}
	jobs := &jobTable{base: b, jobs: map[topology.JobID]*livingJob{}, requests: map[requestKey]*livingJob{},
		damaged: map[topology.JobID]*damagedJob{}, followers: map[topology.JobID][]topology.JobID{},
		throttles: map[topology.JobID]*throttle{}}
	nodes := &nodeTable{base: b, makers: makers, view: belief.New(p.Levels, uids),
		machines: map[topology.NodeID]*machine{}, racks: map[string]*actor.PID{}, rules: map[string]int{}}
	queries := &storeQueries{base: b, finds: map[uint64]find{}}
	learns := &learner{base: b, nodeTable: nodes, learning: newLearning()}
	plans := &planning{base: b, jobTable: jobs, nodeTable: nodes, states: actors.NewStates(&Table, p.Host),
		queue: policy.NewQueue()}
	foresees := &lookahead{base: b, jobTable: jobs, nodeTable: nodes, learner: learns, planning: plans}
	if plans.planner = p.Planner; plans.planner == nil {
		plans.planner = p.Settings.Planner(learns.learning.cells, ends{foresees})
	}
	return &Scheduler{
		base: b, jobTable: jobs, nodeTable: nodes, storeQueries: queries, learner: learns, planning: plans,
		lookahead:  foresees,
		uidPool:    &uidPool{base: b, uids: uids},
		waitCounts: &waitCounts{base: b, jobTable: jobs, waiting: waitingJobs{}},
		evidence: &evidence{base: b, jobTable: jobs, nodeTable: nodes, storeQueries: queries,
			behind: newBehind()},
		greeter:  &greeter{base: b, greetings: newGreetings()},
		capacity: &capacity{base: b, jobTable: jobs, nodeTable: nodes, planning: plans, lookahead: foresees},
		shares: &shares{base: b, jobTable: jobs, nodeTable: nodes, learner: learns, planning: plans,
			lookahead: foresees},
		drains: &drains{base: b, jobTable: jobs, nodeTable: nodes, planning: plans},
		promises: &promises{base: b, jobTable: jobs, nodeTable: nodes, planning: plans,
			preempters: map[topology.JobID]*livingJob{}},
		teller: &teller{base: b, jobTable: jobs, nodeTable: nodes, learner: learns, planning: plans,
			lookahead: foresees},
	}
}

// livingJob is one job from its submit until nothing of it is left to do.
type livingJob struct {
	jobRecord
	jobActor
	queueEntry
	reservation
	ownUID // UID of its tasks
}

// jobRecord holds the fields of a job's record that the Scheduler uses.
type jobRecord struct {
	id        topology.JobID
	key       requestKey
	hash      []byte
	rec       *messages.JobRecord // as submitted
	read      []topology.Token    // its attempts as read: the latest, and those that lack evidence
	element   bool                // it is an element of an array
	concluded messages.JobState   // its final state, once that is on disk
	sought    []topology.JobID    // ended jobs that it depends on, which were found before its submit
	since     int64               // wall clock time of its latest start, once that is on disk; 0: none
}

// jobActor holds the state of a job's actor.
type jobActor struct {
	pid     *actor.PID   // nil until the submit is on disk
	askers  []*actor.PID // clients that get an answer when it is
	breaks  int          // number of times its actor was recreated
	remakes bool         // it is being recreated
	// idleAfter is the last message SignalIdle to the actor.
	idleAfter time.Duration
}

// queueEntry holds the data of a waiting job.
type queueEntry struct {
	spec     *messages.JobSpec   // at its last wait; a user may have changed its time limit
	runs     int32               // number of attempts at its last wait
	had      time.Duration       // total run time of its ended attempts at its last wait
	idle     bool                // it counts as waiting
	bytes    int64               // size of its record, as counted
	noted    bool                // its wait was logged
	refused  *messages.JobRecord // its record, if nodes could not prepare it
	looks    uint64              // number of its choice of nodes: timers of earlier choices are stale
	avoids   []avoided           // nodes where it failed, possibly by its own fault
	waits    *protocol.Waits     // its request to be planned, while it is withheld or lacks a UID
	withheld int                 // number of nodes with a later run of it than the store has
	heldBack bool                // it is an element that waits for its release
	wish     protocol.Waits      // the last Waits of an element, or of a job that may find no UID
}

// reservation holds the nodes that a job was given or promised.
type reservation struct {
	offered   topology.Token    // the last admission sent to its actor
	run       *run              // its latest attempt; nil: none
	promise   *messages.Promise // the last one sent to its actor, or read from disk
	written   *messages.Promise // the one in its record on disk
	stopped   victimOf          // the job for which its actor was told to stop
	outranked outranked
}
