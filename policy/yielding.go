package policy

// This file owns that what a queue is assured comes back though room is kept for another. The guard's firm promise
// stands until those have left who have its machines, for hours or for a day: where the only ones who have more than
// their quotas are on those machines, they would be safe from whoever takes back his own for as long. What runs on loan
// is stopped for him, and what waits for a loan has no better right. So a promise to a job for which its queue borrows
// yields, and its latest time with it: that is told with the time. The next pass makes another one.

import (
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/preempt"
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
	h.coming = j.promisedFirmly(h.e, nil, h.through...)
	j.foresee(h, 1)
	stops, place, ok = j.hunt(h, nil)
	j.foresee(h, -1)
	ok = ok && !slices.ContainsFunc(stops, func(s stop) bool { return s.Rule != preempt.Reclaim })
	return stops, place, ok
}

// isOnLoan reports whether a queue would borrow for the job of a promise what others are assured and may take back.
func (j *Judgement) isOnLoan(p *promise) bool {
	if j.shares == nil || !j.shares.Reclaiming {
		return false
	}
	needs := j.shares.Needs(p.pool, estimate.TotalOf(&p.e.Gang))
	return j.shares.Leaf(p.e.Queue, p.e.Owner).Borrows(needs)
}

// gives reports whether the job of a promise would have what the hunter's queue may take back.
func (j *Judgement) gives(h *hunting, p *promise) bool {
	return h.TakesBack(j.shares.Leaf(p.e.Queue, p.e.Owner), j.shares.Needs(p.pool, estimate.TotalOf(&p.e.Gang)))
}

// yielding are the promises that move, and the firm ones of the guard, to jobs for which their queues would borrow. One
// with a latest time yields only if that was told with it. Who is being stopped already is not counted: it may be that
// they borrow nothing any more.
func (j *Judgement) yielding(h *hunting) (all []*promise) {
	j.discount(h, 1)
	defer j.discount(h, -1)
	for _, p := range slices.Concat(j.firm, j.moving) {
		stays := p.firm && p.bound < topology.Never && !p.onLoan
		if !p.isStopping() && !stays && p.e.Job != h.e.Job && j.gives(h, p) {
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
