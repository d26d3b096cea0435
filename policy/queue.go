// Package policy decides which waiting gangs start, and where. It has no side effects: the caller passes the time in
// nanoseconds.
package policy

// This file implements the queue: the waiting jobs, their order and their reasons.
//
// Jobs of one shape are one group, because they are all refused for the same reason. A pass examines groups. A refused
// group sleeps until capacity becomes free, so waiting jobs cost nothing.

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/yi-json/synapse/policy/heap"
	"github.com/yi-json/synapse/topology"
)

// Waiting is a job in the queue.
type Waiting struct {
	Job      topology.JobID
	Gang     topology.Gang
	Priority int32 // higher is first
	Arrived  int64 // lower is first; a sequence number or a time
	// Since (ns) is the time when the job began to wait. Patience (ns) is the time that it waits for its preferred
	// level. After that, any permitted level is enough.
	Since    int64
	Patience int64
	// The other fields are used to predict the job's run time. Owner is empty if the job has no owner. Limit (ns)
	// is the time limit, or 0. Grace (ns) is the grace period when the job is stopped.
	Owner, Queue, Name string
	Limit, Grace       int64
	// Lent (ns) is the preparation time that the job had as a backfill job, if that was too short. Next time it
	// gets twice as much. 0: this never happened.
	Lent int64
	// Had (ns) is the run time of the job's earlier attempts.
	Had int64
	// Fixed is true if the job must not be stopped for another. It therefore stays within the quota of its queue.
	Fixed bool
}

// before compares two jobs in queue order: priority, then arrival, then ID.
func (w *Waiting) before(o *Waiting) int {
	return cmp.Or(cmp.Compare(o.Priority, w.Priority), cmp.Compare(w.Arrived, o.Arrived), inOrder(w.Job, o.Job))
}

// inOrder compares two IDs. Elements of one array, which have the same arrival, are ordered by index.
func inOrder(a, b topology.JobID) int {
	at := strings.LastIndexByte(string(a), '_')
	if at > 0 && len(b) > at && a[:at+1] == b[:at+1] {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}
	return cmp.Compare(a, b)
}

// isPatient reports whether a job first waits for its preferred level.
func (w *Waiting) isPatient() bool { return w.Patience > 0 && w.Gang.Preferred != "" }

// deadlineNs is the time when the job stops waiting for its preferred level.
func (w *Waiting) deadlineNs() int64 {
	if w.Since > math.MaxInt64-w.Patience {
		return math.MaxInt64
	}
	return w.Since + w.Patience
}

// entry is a waiting job and its positions in the lists of the queue.
type entry struct {
	Waiting
	group   *group
	patient int // index among the patient jobs; -1: not one of them

	gone  bool   // no longer in the queue
	burst *burst // in which a Judgement counts the job; nil: none yet
	standing
}

func entryOrder(a, b *entry) int { return a.before(&b.Waiting) }

// groupKey holds the properties that decide whether jobs are refused together.
type groupKey struct {
	shape   topology.Shape
	patient bool
}

// GroupID identifies a group of jobs with one shape while at least one of them waits. An ID is never used again.
type GroupID uint64

// group holds the waiting jobs of one shape.
type group struct {
	id   GroupID
	key  groupKey
	gang topology.Gang
	// asked is the gang of the last placement. It is stored here because a parameter would need an allocation per
	// refusal.
	asked topology.Gang
	jobs  []*entry // in queue order
	at    int      // index in the queue's list

	asleep   bool // refused, and no capacity has become free since
	looked   bool // refusal is set
	refusal  topology.Refusal
	revision uint64 // of the view at the refusal

	outcome outcome // of the last examination by a Judgement
	inTurn  groupTurns
	close   nearness // the Judgement's result for the existing nodes

	told    topology.Refusal // the reason that Reasons reported last
	anyTold bool
	round   uint64 // of the ReasonsOf call that reported it
}

// Queue holds the waiting jobs.
type Queue struct {
	jobs    map[topology.JobID]*entry
	groups  map[groupKey]*group
	list    []*group // all groups, in any order
	awake   []*group // the groups that the next pass examines
	patient heap.Heap[*entry]

	view   *topology.Tree    // of the last pass
	gained uint64            // the view's growth at the last pass
	heads  heap.Heap[*group] // temporary data of a pass

	made    GroupID  // number of groups created
	entered []*entry // jobs that joined a group after the last pass
	joined  []Joined // temporary data of a pass
	round   uint64   // number of ReasonsOf calls
	unread  topology.Refusal
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{
		jobs:    map[topology.JobID]*entry{},
		groups:  map[groupKey]*group{},
		patient: heap.Heap[*entry]{Before: sooner, Moved: func(e *entry, at int) { e.patient = at }},
		heads:   heap.Heap[*group]{Before: func(a, b *group) bool { return entryOrder(a.jobs[0], b.jobs[0]) < 0 }},
	}
}

// sooner orders patient jobs by their deadlines.
func sooner(a, b *entry) bool {
	return cmp.Or(cmp.Compare(a.deadlineNs(), b.deadlineNs()), entryOrder(a, b)) < 0
}

// Add adds a job. It panics if the job is already in the queue, because the job would start twice.
func (q *Queue) Add(w Waiting) {
	if _, known := q.jobs[w.Job]; known {
		panic("policy: job " + string(w.Job) + " is already in the queue")
	}
	e := &entry{Waiting: w, patient: -1}
	q.jobs[w.Job] = e
	if w.isPatient() {
		q.patient.Push(e)
	}
	q.enter(e, w.isPatient())
}

// Remove removes a job. It reports whether the job was in the queue.
func (q *Queue) Remove(job topology.JobID) bool {
	e := q.jobs[job]
	if e == nil {
		return false
	}
	delete(q.jobs, job)
	e.gone = true
	if e.patient >= 0 {
		q.patient.Remove(e.patient)
	}
	q.leave(e)
	return true
}

// Replace changes the data of a waiting job. It keeps the time that the job has been passed over and its reported
// reason, so that a closed node delays no job further.
func (q *Queue) Replace(w Waiting) {
	was := q.jobs[w.Job]
	q.Remove(w.Job)
	q.Add(w)
	q.jobs[w.Job].standing = standing{
		left: was.left, declined: was.declined, slips: was.slips, given: was.given, told: was.told,
	}
}

// Get returns a waiting job.
func (q *Queue) Get(job topology.JobID) (Waiting, bool) {
	e := q.jobs[job]
	if e == nil {
		return Waiting{}, false
	}
	return e.Waiting, true
}

// Entered visits the waiting jobs that were added after the last pass.
func (q *Queue) Entered(visit func(Waiting)) {
	for _, e := range q.entered {
		if q.jobs[e.Job] == e {
			visit(e.Waiting)
		}
	}
}

// Select returns the waiting jobs that match, in queue order.
func (q *Queue) Select(matches func(topology.JobID) bool) []topology.JobID {
	var found []*entry
	for job, e := range q.jobs { //order: sorted below
		if matches(job) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, entryOrder)
	jobs := make([]topology.JobID, len(found))
	for i, e := range found {
		jobs[i] = e.Job
	}
	return jobs
}

// Len returns the number of waiting jobs.
func (q *Queue) Len() int { return len(q.jobs) }

// Position returns the number of jobs ahead of a job. It returns false if the job does not wait.
func (q *Queue) Position(job topology.JobID) (int, bool) {
	e := q.jobs[job]
	if e == nil {
		return 0, false
	}
	ahead := 0
	for _, g := range q.list {
		n, _ := slices.BinarySearchFunc(g.jobs, e, entryOrder)
		ahead += n
	}
	return ahead, true
}

// Ahead returns the number of jobs that would be ahead of a new job with this priority.
func (q *Queue) Ahead(priority int32) int {
	n := 0
	last := &entry{Waiting: Waiting{Priority: priority, Arrived: math.MaxInt64}}
	for _, g := range q.list {
		before, _ := slices.BinarySearchFunc(g.jobs, last, entryOrder)
		n += before
	}
	return n
}

// enter adds a job to the group of its shape.
func (q *Queue) enter(e *entry, patient bool) {
	key := groupKey{shape: e.Gang.Shape(), patient: patient}
	g := q.groups[key]
	if g == nil {
		q.made++
		g = &group{id: q.made, key: key, gang: e.Gang, at: len(q.list)}
		q.groups[key] = g
		q.list = append(q.list, g)
		q.awake = append(q.awake, g)
	}
	e.group = g
	q.entered = append(q.entered, e)
	at, _ := slices.BinarySearchFunc(g.jobs, e, entryOrder)
	g.jobs = slices.Insert(g.jobs, at, e)
}

// leave removes a job from its group, and an empty group from the queue.
func (q *Queue) leave(e *entry) {
	g := e.group
	at, _ := slices.BinarySearchFunc(g.jobs, e, entryOrder)
	if at == 0 {
		g.jobs[0], g.jobs = nil, g.jobs[1:]
	} else {
		g.jobs = slices.Delete(g.jobs, at, at+1)
	}
	if len(g.jobs) > 0 {
		return
	}
	delete(q.groups, g.key)
	last := q.list[len(q.list)-1]
	q.list[g.at], last.at = last, g.at
	q.list = q.list[:len(q.list)-1]
}

// wanted returns the gang to place. While the group is patient, the preferred level is required.
func (g *group) wanted(view *topology.Tree) topology.Gang {
	gang := g.gang
	if g.key.patient && view.Finer(gang.Preferred, gang.Required) {
		gang.Required = gang.Preferred
	}
	return gang
}

// own returns the reservations for the first job of the group that has a promise. The reason of a group explains why
// that job does not start, and its own reservation does not block it.
func (g *group) own() topology.Lent {
	for _, e := range g.jobs {
		if e.promised != nil {
			return e.own()
		}
	}
	return topology.Lent{}
}

// place searches for nodes for the group's gang, including those in lent. It stores a refusal for later questions.
func (g *group) place(view *topology.Tree, lent topology.Lent) (topology.Placement, bool) {
	g.asked = g.wanted(view)
	p, ok := topology.PlaceWary(view, &g.asked, lent, &g.refusal)
	if !ok {
		g.refusal.Patient = g.key.patient
		g.looked, g.revision = true, view.Revision()
	}
	return p, ok
}

// Turn is the position of a waiting job in the queue order. A job with a lower turn is ahead. No two jobs have the same
// turn.
type Turn string

// turn encodes priority, arrival and ID so that the texts have the order of the jobs.
func (w *Waiting) turn() Turn {
	b := make([]byte, 0, 14+len(w.Job))
	array, index := string(w.Job), ""
	if at := strings.LastIndexByte(array, '_'); at > 0 {
		array, index = array[:at], array[at:]
	}
	b = binary.BigEndian.AppendUint32(b, uint32(^w.Priority)^(1<<31)) // higher is first
	b = binary.BigEndian.AppendUint64(b, uint64(w.Arrived)^(1<<63))
	b = append(b, array...)
	if index != "" { // of two indices of one array, the shorter one is lower
		b = append(b, '_', byte(len(index)))
	}
	return Turn(append(b, index...))
}

// LastTurn returns a turn after all jobs of this priority.
func LastTurn(priority int32) Turn {
	return (&Waiting{Priority: priority, Arrived: math.MaxInt64}).turn()
}

// Standing is the position of a job in the queue.
type Standing struct {
	// Ahead is the number of jobs before it. Waiting is the number of all jobs in the queue.
	Ahead, Waiting int
}
