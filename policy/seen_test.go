package policy

// This file has accessors of a queue for tests.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

// shapes returns the number of different waiting shapes.
func (q *Queue) shapes() int { return len(q.list) }

// waits returns the waiting jobs in order.
func (q *Queue) waits() []Waiting {
	out := make([]Waiting, 0, len(q.jobs))
	for _, g := range q.list {
		for _, e := range g.jobs {
			out = append(out, e.Waiting)
		}
	}
	slices.SortFunc(out, func(a, b Waiting) int { return a.before(&b) })
	return out
}

// reason returns why a job does not start in the current view. It returns nil if no reason is known: the job does not
// wait, no pass has examined it, or capacity has become free and the next pass will start it.
func (q *Queue) reason(job topology.JobID) *topology.Refusal {
	e := q.jobs[job]
	if e == nil || !e.group.looked {
		return nil
	}
	g := e.group
	if g.revision != q.view.Revision() {
		if _, fits := g.place(q.view, topology.Lent{}); fits {
			return nil
		}
	}
	r := g.refusal
	return &r
}
