package policy

// This file suggests a time limit for a waiting job. With that limit, the job would start now on nodes that are
// reserved for others, because it would end in time. A suggestion never promises more than mayBorrow allows in the next
// pass.

import (
	"cmp"
	"slices"
	"time"

	"github.com/yi-json/synapse/topology"
)

// Borrower is a waiting job that might be backfilled.
type Borrower struct {
	Job   topology.JobID
	Limit int64 // ns; 0: none
	Grace int64 // ns
	Lent  int64 // as in Waiting
}

// WayOut is a time limit with which a job would start now. Of has the jobs whose reserved nodes it would use. If Of is
// empty, only the job's expected length keeps it from starting.
type WayOut struct {
	Limit time.Duration
	Of    []topology.JobID
}

// untilAsked is the time for which a suggestion stays valid, so that a user has time to apply it.
const untilAsked = 30 * second

// WayOut finds the longest time limit with which a job of this shape would start in the next pass, if nothing else
// changes. The limit is in whole minutes. The list promises must be in the order of the planner. If heldBack is true,
// long jobs do not start now. The job is placed at the finest level that fits, because the planner may not allow
// another one. A job with its own promise gets no suggestion, because another limit would change its turn, and its
// reserved nodes could go to another job.
func (q *Question) WayOut(
	view *topology.Tree, who Borrower, promises []Promise, heldBack bool, nowNs int64,
) (WayOut, bool) {
	if slices.ContainsFunc(promises, func(p Promise) bool { return p.Job == who.Job }) {
		return WayOut{}, false
	}
	gang := q.Gang
	if level := closestIn(view, gang); level != "" {
		gang.Required = level
	}
	var unread topology.Refusal
	fits := func(lent topology.Lent) bool {
		_, ok := topology.PlaceLent(view, &gang, lent, &unread)
		return ok
	}
	if fits(topology.Lent{}) {
		return who.within(nowNs+longWork+who.Grace+settling+untilAsked, nil, nowNs, heldBack)
	}
	if !fits(topology.Lent{All: true}) {
		return WayOut{}, false
	}
	lenders := slices.Clone(promises[:min(len(promises), maxLenders)])
	slices.SortStableFunc(lenders, func(a, b Promise) int { return cmp.Compare(who.leaves(&b), who.leaves(&a)) })
	var lent topology.Lent
	for i := range lenders {
		lent.Of = append(lent.Of, topology.KeepID(lenders[i].Job))
		if i+1 < len(lenders) && who.leaves(&lenders[i+1]) == who.leaves(&lenders[i]) || !fits(lent) {
			continue
		}
		p, _ := topology.PlaceLent(view, &gang, lent, &unread)
		var of []topology.JobID
		for _, l := range lenders[:i+1] {
			if overlaps(l.Where, p) {
				of = append(of, l.Job)
			}
		}
		return who.within(who.leaves(&lenders[i]), of, nowNs, true)
	}
	return WayOut{}, false
}

// leaves returns the time when a job must have left the capacity of a promise.
func (w *Borrower) leaves(p *Promise) int64 {
	if p.Firm && p.Bound < topology.Never {
		return min(p.At, p.Bound-max(readyIn, 2*w.Lent))
	}
	return p.At
}

// within returns the time limit with which a job has left by a time. It returns false if that limit is too short, or
// not shorter than the job's own.
func (w *Borrower) within(by int64, of []topology.JobID, now int64, helps bool) (WayOut, bool) {
	limit := min(by-now-w.Grace-settling-untilAsked, longWork) / (60 * second) * (60 * second)
	if !helps || limit < 60*second || w.Limit > 0 && w.Limit <= limit {
		return WayOut{}, false
	}
	return WayOut{Limit: time.Duration(limit), Of: of}, true
}
