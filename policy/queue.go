// Package policy decides which waiting gangs start, and where. It is pure: who
// knows the time passes it in, in nanoseconds.
package policy

// This file owns the queue: which jobs wait, in which order, and what is known
// of why. Jobs of one shape wait in one group, because what refuses the first of
// them refuses them all: a pass looks at groups, and a group that was refused
// sleeps until room has grown somewhere. Waiting costs nothing.

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
	Priority int32 // higher first
	Arrived  int64 // smaller first; a sequence or a time
	// Since (ns) is when the job began to wait, Patience (ns) how long it waits for
	// its preferred level before any level that is permitted will do.
	Since    int64
	Patience int64
	// What the rest tells is for how long the job may run, and how long jobs like it ran. Owner is empty where nobody is
	// named. Limit (ns) is 0 where there is none; Grace (ns) is what it has to end in when it is stopped.
	Owner, Queue, Name string
	Limit, Grace       int64
	// Lent (ns) is how long it had to get ready when room was lent to it and that was too short: 0, never. Next time it
	// gets twice that.
	Lent int64
	// Had (ns) is for how long earlier attempts of it ran.
	Had int64
	// Fixed: it is not to be stopped for another, and so it stays within its queue's quota.
	Fixed bool
}

// before is the order of the queue: priority, then arrival, then id.
func (w *Waiting) before(o *Waiting) int {
	return cmp.Or(cmp.Compare(o.Priority, w.Priority), cmp.Compare(w.Arrived, o.Arrived), inOrder(w.Job, o.Job))
}

// inOrder is the order of ids, of elements of one array that of their indices: those have one arrival.
func inOrder(a, b topology.JobID) int {
	at := strings.LastIndexByte(string(a), '_')
	if at > 0 && len(b) > at && a[:at+1] == b[:at+1] {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}
	return cmp.Compare(a, b)
}

// isPatient reports whether a job first waits for its preferred level.
func (w *Waiting) isPatient() bool { return w.Patience > 0 && w.Gang.Preferred != "" }

// deadlineNs is when a patient job's patience runs out.
func (w *Waiting) deadlineNs() int64 {
	if w.Since > math.MaxInt64-w.Patience {
		return math.MaxInt64
	}
	return w.Since + w.Patience
}

// entry is a waiting job and where it stands.
type entry struct {
	Waiting
	group   *group
	patient int // its place among the patient, -1 when it is not one of them

	gone  bool   // it is in the queue no more
	burst *burst // that a Judgement counts it in; nil: none yet
	standing
}

func entryOrder(a, b *entry) int { return a.before(&b.Waiting) }

// groupKey holds the properties that jobs share which are refused together.
type groupKey struct {
	shape   topology.Shape
	patient bool
}

// GroupID names a group of waiting jobs of one shape for as long as one of them
// waits. It is never used again.
type GroupID uint64

// group is the waiting jobs of one shape.
type group struct {
	id   GroupID
	key  groupKey
	gang topology.Gang
	// asked is the gang as it was last placed; it is kept here because a gang that
	// is passed on costs an allocation per refusal.
	asked topology.Gang
	jobs  []*entry // in order
	at    int      // its place in the queue's list

	asleep   bool // refused, and nothing has grown since
	looked   bool // the refusal is one
	refusal  topology.Refusal
	revision uint64 // of the view when it was refused

	outcome outcome // of looking at it in one pass of a Judgement
	inTurn  groupTurns
	close   nearness // what that knows of it on the machines that there are

	told    topology.Refusal // what Reasons said last
	anyTold bool
	round   uint64 // of ReasonsOf that said it
}

// Queue holds the waiting jobs.
type Queue struct {
	jobs    map[topology.JobID]*entry
	groups  map[groupKey]*group
	list    []*group // the groups, in no order that matters
	awake   []*group // those that the next pass looks at
	patient heap.Heap[*entry]

	view   *topology.Fabric  // of the last pass
	gained uint64            // its growth that the last pass knew
	heads  heap.Heap[*group] // scratch of the pass

	made    GroupID  // groups ever made
	entered []*entry // that came into their group since the last pass
	joined  []Joined // scratch of the pass
	round   uint64   // counts calls of ReasonsOf
	unread  topology.Refusal
}

// NewQueue makes an empty queue.
func NewQueue() *Queue {
	return &Queue{
		jobs:    map[topology.JobID]*entry{},
		groups:  map[groupKey]*group{},
		patient: heap.Heap[*entry]{Before: sooner, Moved: func(e *entry, at int) { e.patient = at }},
		heads:   heap.Heap[*group]{Before: func(a, b *group) bool { return entryOrder(a.jobs[0], b.jobs[0]) < 0 }},
	}
}

// sooner orders the patient by when their patience runs out.
func sooner(a, b *entry) bool {
	return cmp.Or(cmp.Compare(a.deadlineNs(), b.deadlineNs()), entryOrder(a, b)) < 0
}

// Add enters a job. A job that waits already panics: two entries of one job
// would start it twice.
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

// Remove takes a job out, and reports whether it was there.
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

// Replace changes what is known of a job that waits, and keeps for how long it has been passed over and what it was
// told:
// whoever closes a machine makes nobody wait for longer.
func (q *Queue) Replace(w Waiting) {
	was := q.jobs[w.Job]
	q.Remove(w.Job)
	q.Add(w)
	q.jobs[w.Job].standing = standing{
		left: was.left, declined: was.declined, slips: was.slips, given: was.given, told: was.told,
	}
}

// Get finds a job.
func (q *Queue) Get(job topology.JobID) (Waiting, bool) {
	e := q.jobs[job]
	if e == nil {
		return Waiting{}, false
	}
	return e.Waiting, true
}

// Entered visits the jobs that came into the queue since the last pass and still wait.
func (q *Queue) Entered(visit func(Waiting)) {
	for _, e := range q.entered {
		if q.jobs[e.Job] == e {
			visit(e.Waiting)
		}
	}
}

// Len counts the waiting jobs.
func (q *Queue) Len() int { return len(q.jobs) }

// Position counts the jobs ahead of a job; false when it does not wait.
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

// Ahead counts the jobs that would go before one of a priority that came now.
func (q *Queue) Ahead(priority int32) int {
	n := 0
	last := &entry{Waiting: Waiting{Priority: priority, Arrived: math.MaxInt64}}
	for _, g := range q.list {
		before, _ := slices.BinarySearchFunc(g.jobs, last, entryOrder)
		n += before
	}
	return n
}

// enter puts a job into the group of its shape.
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

// leave takes a job out of its group, and an empty group out of the queue.
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

// wanted is the gang that is placed: while the group is patient, its preferred
// level is required.
func (g *group) wanted(view *topology.Fabric) topology.Gang {
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
			return topology.Lent{Of: []topology.KeepID{e.promised.keep, e.promised.keep.Former()}}
		}
	}
	return topology.Lent{}
}

// place looks for a place for any gang of the group, also on what is lent to it. A refusal is kept for all who ask why.
func (g *group) place(view *topology.Fabric, lent topology.Lent) (topology.Placement, bool) {
	g.asked = g.wanted(view)
	p, ok := topology.PlaceLent(view, &g.asked, lent, &g.refusal)
	if !ok {
		g.refusal.Patient = g.key.patient
		g.looked, g.revision = true, view.Revision()
	}
	return p, ok
}

// Turn says where a waiting job stands in the queue, for whoever counts who is ahead of whom elsewhere: those with a
// lesser turn are ahead of it. No two jobs have the same.
type Turn string

// turn writes what the order goes by so that texts compare as jobs do: priority, then arrival, then id.
func (w *Waiting) turn() Turn {
	b := make([]byte, 0, 14+len(w.Job))
	array, index := string(w.Job), ""
	if at := strings.LastIndexByte(array, '_'); at > 0 {
		array, index = array[:at], array[at:]
	}
	b = binary.BigEndian.AppendUint32(b, uint32(^w.Priority)^(1<<31)) // higher first
	b = binary.BigEndian.AppendUint64(b, uint64(w.Arrived)^(1<<63))
	b = append(b, array...)
	if index != "" { // of elements of one array the shorter index is the lesser
		b = append(b, '_', byte(len(index)))
	}
	return Turn(append(b, index...))
}

// LastTurn is behind all jobs of a priority that wait now.
func LastTurn(priority int32) Turn {
	return (&Waiting{Priority: priority, Arrived: math.MaxInt64}).turn()
}

// Standing is where a job stands among those that wait.
type Standing struct {
	// Ahead counts the jobs before it in the queue, of Waiting jobs in all.
	Ahead, Waiting int
}
