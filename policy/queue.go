package policy

// This file owns the order in which jobs wait.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// Waiting is a job in the queue.
type Waiting struct {
	Job      topology.JobID
	Gang     topology.Gang
	Priority int32 // higher first
	Arrived  int64 // smaller first; a sequence or a time
	// Since (ns) is when it began to wait for its preferred level, Patience (ns)
	// how long it does so before any permitted level will do.
	Since    int64
	Patience int64
}

// Queue holds the waiting jobs: priority, then arrival, then id.
type Queue struct {
	jobs    map[topology.JobID]Waiting
	reasons map[topology.JobID]*topology.Refusal
}

// NewQueue makes an empty queue.
func NewQueue() *Queue {
	return &Queue{jobs: map[topology.JobID]Waiting{}, reasons: map[topology.JobID]*topology.Refusal{}}
}

// Add enters a job; a known id panics.
func (q *Queue) Add(w Waiting) {
	if _, ok := q.jobs[w.Job]; ok {
		panic("policy: job " + string(w.Job) + " is already in the queue")
	}
	q.jobs[w.Job] = w
}

// Remove takes a job out and tells whether it was there.
func (q *Queue) Remove(job topology.JobID) bool {
	_, ok := q.jobs[job]
	delete(q.jobs, job)
	delete(q.reasons, job)
	return ok
}

// Get finds a job.
func (q *Queue) Get(job topology.JobID) (Waiting, bool) { w, ok := q.jobs[job]; return w, ok }

// Len counts the waiting jobs.
func (q *Queue) Len() int { return len(q.jobs) }

// Jobs lists the waiting jobs in order.
func (q *Queue) Jobs() []Waiting {
	out := make([]Waiting, 0, len(q.jobs))
	for _, w := range q.jobs {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.Job, b.Job))
	})
	return out
}

// Position counts the jobs ahead of a job; false when it does not wait.
func (q *Queue) Position(job topology.JobID) (int, bool) {
	for i, w := range q.Jobs() {
		if w.Job == job {
			return i, true
		}
	}
	return 0, false
}

// Reason says why a job was refused last; nil when no pass has looked at it.
func (q *Queue) Reason(job topology.JobID) *topology.Refusal { return q.reasons[job] }
