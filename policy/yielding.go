package policy

// This file owns that what a queue is assured comes back though room is kept for another. The guard's firm promise
// stands until those have left who have its machines, for hours or for a day: where the only ones who have more than
// their quotas are on those machines, they would be safe from whoever takes back his own for as long. What runs on loan
// is stopped for him, and what waits for a loan has no better right. So a promise to a job for which its queue borrows
// yields, and its latest time with it: that is told with the time. The next pass makes another one.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

// huntThrough finds whom to stop for a job. If there is nobody, it looks once more as if what yields to it were not
// promised, for those that are reclaimed alone; through are the promises that were not minded.
func (j *Judgement) huntThrough(h *hunting) (stops []stop, place topology.Placement, ok bool) {
	j.foresee(h, 1)
	stops, place, ok = j.hunt(h, nil)
	j.foresee(h, -1)
	if ok {
		return stops, place, ok
	}
	if h.through = j.yielding(h); len(h.through) == 0 {
		return nil, place, false
	}
	j.hunts++
	h.all, h.coming = h.all[:0], j.promisedFirmly(h.e, nil, h.through...)
	j.foresee(h, 1)
	stops, place, ok = j.hunt(h, nil)
	j.foresee(h, -1)
	ok = ok && !slices.ContainsFunc(stops, func(s stop) bool { return s.Rule != Reclaim })
	return stops, place, ok
}

// isOnLoan reports whether a queue would borrow for the job of a promise while others may take back what they lent.
func (j *Judgement) isOnLoan(p *promise) bool {
	return j.shares != nil && j.shares.reclaiming && j.borrows(p)
}

// borrows reports whether with the job of a promise one of its queues would have more than it is assured.
func (j *Judgement) borrows(p *promise) bool {
	needs := j.shares.needs(p.pool, totalOf(&p.e.Gang))
	return !j.shares.leaf(p.e.Queue, p.e.Owner).withinUpTo(needs)[j.shares.root]
}

// yielding are the promises that move, and the firm ones of the guard, to jobs for which their queues would borrow. One
// with a latest time yields only if that was told with it.
func (j *Judgement) yielding(h *hunting) (all []*promise) {
	for _, p := range slices.Concat(j.firm, j.moving) {
		stays := p.firm && p.bound < topology.Never && !p.onLoan
		if !p.isStopping() && !stays && p.e.Job != h.e.Job && h.leaf.preempts.reclaim && j.borrows(p) {
			all = append(all, p)
		}
	}
	return all
}

// yield gives up those of the promises that were not minded whose machines are taken, and the firm ones: they were not
// counted in the quotas and limits that the job now reaches.
func (j *Judgement) yield(h *hunting, place topology.Placement) {
	for _, p := range h.through {
		switch {
		case p.firm:
			j.giveUp(p)
		case slices.ContainsFunc(p.place.Slots, func(s topology.Slot) bool {
			return slices.ContainsFunc(place.Slots, func(o topology.Slot) bool { return o.Node == s.Node })
		}):
			j.drop(p)
		}
	}
}
