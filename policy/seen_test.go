package policy

// This file owns what tests see of a queue that nobody else asks for.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

// shapes counts the different shapes that wait.
func (q *Queue) shapes() int { return len(q.list) }

// waits lists the waiting jobs in order.
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

// reason says why a job does not start, true of the view as it is now. It is nil
// when nothing is known to stand in its way: it does not wait, no pass has looked
// at it yet, or room has come free and the next pass will find it.
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
