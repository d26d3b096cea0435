package policy

// This file finds the nodes that a waiting job needs although they get no new work for a time. The caller avoids such
// nodes because it suspects them, and that must not keep a job waiting.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

const (
	// headsTried limits the jobs that Needs examines.
	headsTried = 8
	// soonAfter (ns) is the time after a node's return in which a promise still begins because of that return. A job may
	// wait for a closer place first.
	soonAfter = 15 * 60 * second
)

// Needs returns the first waiting job if it could start now with some unschedulable nodes and cannot without them, and
// those of the nodes that it needs. The job is the first in queue order that is not barred by a limit and that the
// nodes in service could hold together with these nodes.
func (q *Queue) Needs(
	view *topology.Tree, nodes []topology.NodeID, barred func(topology.JobID) bool,
) (job topology.JobID, needed []topology.NodeID) {
	heads := q.headsBesides(barred)
	defer view.Rollback(view.Mark())
	for _, n := range nodes {
		view.SetUsable(n, "")
	}
	for _, e := range heads[:min(len(heads), headsTried)] {
		gang := e.group.wanted(view)
		if !topology.InService(view, &gang) {
			continue
		}
		fits := func() (topology.Placement, bool) { return topology.PlaceLent(view, &gang, e.own(), &q.unread) }
		p, ok := fits()
		if !ok {
			return "", nil
		}
		used := p.Nodes()
		for _, n := range nodes { // those that it uses come last, so that only needed ones stay open
			if !slices.Contains(used, n) {
				view.SetUsable(n, "not needed")
			}
		}
		for _, n := range nodes {
			if !slices.Contains(used, n) {
				continue
			}
			view.SetUsable(n, "perhaps not needed")
			if _, ok := fits(); !ok {
				view.SetUsable(n, "")
				needed = append(needed, n)
			}
		}
		return e.Job, needed
	}
	return "", nil
}

// headsBesides returns the first job of each group that is not barred, in queue order.
func (q *Queue) headsBesides(barred func(topology.JobID) bool) (heads []*entry) {
	for _, g := range q.list {
		if at := slices.IndexFunc(g.jobs, func(e *entry) bool { return !barred(e.Job) }); at >= 0 {
			heads = append(heads, g.jobs[at])
		}
	}
	slices.SortFunc(heads, entryOrder)
	return heads
}

// own returns the reservations for the job.
func (e *entry) own() topology.Lent {
	if e.promised == nil {
		return topology.Lent{}
	}
	return topology.Lent{Of: []topology.KeepID{e.promised.keep, e.promised.keep.Former()}}
}

// Awaits returns a job that starts later because of an unschedulable node: its promise includes the node, and begins
// when the node returns. It returns "" if there is none.
func (j *Judgement) Awaits(node topology.NodeID, returns int64) topology.JobID {
	for _, p := range slices.Concat(j.firm, j.moving) {
		if p.at >= returns && p.at-returns <= soonAfter && slices.Contains(p.place.Nodes(), node) {
			return p.e.Job
		}
	}
	return ""
}
