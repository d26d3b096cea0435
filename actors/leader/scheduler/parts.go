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

// This file owns the parts of a Scheduler. A part owns a few fields, and embeds the parts that it uses. The compiler
// keeps it out of all others: a method belongs to the lowest part that has all it needs. The Scheduler itself has the
// methods that bring the parts together.
//
// The naive way is one type with all fields. Then any of 270 methods may change any field, and whoever reads one method
// must read the others. The cost of this way: a part is a pointer, and a method is found by its part's name here.

// base holds what every part uses.
type base struct {
	p      *protocol.Ports
	levels []string
	self   *actor.PID
	peers  protocol.JobPeers
	tokens uint64 // counts the attempts of this epoch
	lives  uint64 // counts what writes records, so that two writers can be told apart
}

// jobTable holds the jobs that are not over.
type jobTable struct {
	*base
	jobs      map[topology.JobID]*livingJob
	requests  map[requestKey]*livingJob
	damaged   map[topology.JobID]*damagedJob
	followers map[topology.JobID][]topology.JobID // the jobs that wait for one to end
	throttles map[topology.JobID]*throttle        // of arrays
	owners    owners
}

// nodeTable holds the nodes, and the view of what is free on them.
type nodeTable struct {
	*base
	makers   Makers
	view     *belief.View
	machines map[topology.NodeID]*machine
	order    []*machine // as they came
	racks    map[string]*actor.PID
	awaited  int            // nodes in the store that this leader has not heard yet
	rules    map[string]int // how many nodes decide about accounts in which way
}

// uidPool gives jobs their uids (uids.go).
type uidPool struct {
	*base
	uids    *topology.UIDs
	uidTurn uint64 // of the uid that was given last
	uidless uidless
}

// waitCounts counts the jobs that wait (check.go).
type waitCounts struct {
	*base
	*jobTable
	waiting waitingJobs
}

// storeQueries holds the questions to the store that are open (find.go).
type storeQueries struct {
	*base
	finds   map[uint64]find
	tickets uint64
}

// evidence compares what nodes have with what the store knows (behind.go).
type evidence struct {
	*base
	*nodeTable
	*jobTable
	*storeQueries
	behind behind
}

// greeter tells nodes who leads (links.go).
type greeter struct {
	*base
	greetings greetings
	early     []topology.NodeID // links that stood before the store was read
}

// learner learns for how long jobs run (learning.go).
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
	planDue bool           // a pass is asked for
	wakeAt  actors.Instant // when a waiting job's patience ends and a timer is set for it
}

// lookahead knows when what runs is expected to end (foresight.go).
type lookahead struct {
	*base
	*nodeTable
	*jobTable
	*learner
	*planning
	foresight foresight
}

// capacity corrects the view of what nodes have free, and asks for a pass where that has changed.
type capacity struct {
	*base
	*nodeTable
	*jobTable
	*planning
	*lookahead
}

// shares plans by the queues that an operator has described (queues.go).
type shares struct {
	*base
	*nodeTable
	*jobTable
	*learner
	*planning
	*lookahead
	queues described
}

// drains closes nodes at the time that an operator has named (drain.go).
type drains struct {
	*base
	*nodeTable
	*jobTable
	*planning
	closings []closing // nodes that close later, the first one first
}

// promises writes the start guarantees, and stops jobs for them (promises.go).
type promises struct {
	*base
	*nodeTable
	*jobTable
	*planning
	preempters map[topology.JobID]*livingJob // the jobs for which others are stopped
}

// teller tells the Mirror why and how long jobs wait (shown.go, figures.go).
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

// New returns the Scheduler of a leader that has yet to read its store.
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
	ownUID // of its tasks
}

// jobRecord holds the fields of a job's record that the Scheduler uses.
type jobRecord struct {
	id        topology.JobID
	key       requestKey
	hash      []byte
	rec       *messages.JobRecord // as submitted
	read      []topology.Token    // its attempts as they were read: the latest, and those that lack evidence
	element   bool                // of an array
	concluded messages.JobState   // its terminal state, once that is on disk
}

// jobActor is how far a job has an actor.
type jobActor struct {
	pid     *actor.PID   // nil until the submit is on disk
	askers  []*actor.PID // clients to be told that it is
	breaks  int          // times its actor was recreated without an end
	remakes bool         // it is being recreated
}

// queueEntry is how a job waits.
type queueEntry struct {
	spec     *messages.JobSpec   // as it waited last: its time limit may have been changed
	runs     int32               // as it waited last
	had      time.Duration       // for how long attempts of it ran, those that were over when it waited last
	idle     bool                // it is counted as one that waits
	bytes    int64               // of its record, as it is counted
	noted    bool                // that it waits was logged
	refused  *messages.JobRecord // as it waits, where nodes could not prepare it
	looks    uint64              // how often it chose its nodes: the timers of earlier choices are stale
	avoids   []avoided           // nodes where it failed, by a fault that may be its own
	waits    *protocol.Waits     // its wish to be planned, while it is withheld, or lacks a uid
	withheld int                 // nodes with a later run of it than the store knows
	heldBack bool                // it is an element, and waits for its release
	wish     protocol.Waits      // of an element: what it said last
}

// reservation holds the nodes that a job was given or promised.
type reservation struct {
	offered   topology.Token    // the last admission that its actor was sent
	run       *run              // its latest attempt; nil: there was none
	promise   *messages.Promise // that its actor was told last, or has from disk
	written   *messages.Promise // that its record on disk has
	stopped   victimOf          // for whom its actor was told to stop
	outranked outranked
}
