package policy

// This file owns the way out that a time limit is: with which one a waiting job would start now, on what is kept for
// others, because it is gone by when they want it. It says no more than mayBorrow would grant in the next pass.

import (
	"cmp"
	"slices"
	"time"

	"github.com/yi-json/synapse/topology"
)

// Borrower is a waiting job that might start on what is kept for others.
type Borrower struct {
	Job   topology.JobID
	Limit int64 // ns; 0: none
	Grace int64 // ns
	Lent  int64 // as in Waiting
}

// WayOut is a time limit with which a job would start now. Of is whose room it would have; none: it is held back for
// its length alone.
type WayOut struct {
	Limit time.Duration
	Of    []topology.JobID
}

// untilAsked is how long what is told is to stay true, so that who reads it can still act on it.
const untilAsked = 30 * second

// WayOut finds a time limit with which a job of this shape would start in the next pass, and the longest there is, in
// whole minutes, as long as nothing else changes. What is promised to whom must be told in the order in which the
// planner has it; heldBack: jobs that are expected to run for long do not start now. A job is sent where it stays
// closest together: it may not be let anywhere else. One that has a promise is told none: with another limit it has
// another turn, and then the place that was promised may be another's.
func (q *Question) WayOut(
	view *topology.Fabric, who Borrower, promises []Promise, heldBack bool, nowNs int64,
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

// leaves is by when a job must have left what a promise keeps.
func (w *Borrower) leaves(p *Promise) int64 {
	if p.Firm && p.Bound < topology.Never {
		return min(p.At, p.Bound-max(readyIn, 2*w.Lent))
	}
	return p.At
}

// within is the time limit with which a job has left by an instant; false where it is none, or one that it has.
func (w *Borrower) within(by int64, of []topology.JobID, now int64, helps bool) (WayOut, bool) {
	limit := min(by-now-w.Grace-settling-untilAsked, longWork) / (60 * second) * (60 * second)
	if !helps || limit < 60*second || w.Limit > 0 && w.Limit <= limit {
		return WayOut{}, false
	}
	return WayOut{Limit: time.Duration(limit), Of: of}, true
}
