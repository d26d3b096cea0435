package policy

// This file lets a queue reclaim its quota although nodes are reserved for another job. A firm promise of the guard
// remains until its nodes are free, which can take a day. If only the jobs on these nodes exceed their quotas, they
// would be safe from reclaim for that time. Jobs that run on borrowed quota are stopped for a reclaim, so a job that
// waits for borrowed quota has no better right. A promise of a job whose queue borrows therefore yields, with its
// latest start. The published estimate mentions this condition. The next pass makes a new promise.

import (
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// huntThrough searches victims for a job. If it finds none, it searches again without the promises that yield to the
// job, and accepts only victims by reclaim. The field through then has the ignored promises.
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
	ok = ok && !slices.ContainsFunc(stops, func(s stop) bool { return s.Rule != preempt.Reclaim }) &&
		j.yieldAfter(h, stops)
	return stops, place, ok
}

// yieldAfter reports whether the promises of the guard still yield when the victims have gone. Victims of its own queue
// may leave so much quota that a job does not borrow any more.
func (j *Judgement) yieldAfter(h *hunting, stops []stop) bool {
	var leave []*share.Hold
	for i := range stops {
		if x := j.shares.Of(stops[i].Job); x != nil {
			leave = append(leave, x)
		}
	}
	j.discount(h, 1)
	j.shares.Count(-1, leave...)
	defer j.discount(h, -1)
	defer j.shares.Count(1, leave...)
	return !slices.ContainsFunc(h.through, func(p *promise) bool { return p.firm && !j.gives(h, p) })
}

// isOnLoan reports whether the queue of a promise's job would borrow from queues that may reclaim their quotas.
func (j *Judgement) isOnLoan(p *promise) bool {
	if j.shares == nil || !j.shares.Reclaiming {
		return false
	}
	needs := j.shares.Needs(p.pool, estimate.TotalOf(&p.e.Gang))
	return j.shares.Leaf(p.e.Queue, p.e.Owner).Borrows(needs)
}

// gives reports whether the job of a promise would use capacity that the searching job's queue may reclaim.
func (j *Judgement) gives(h *hunting, p *promise) bool {
	return h.TakesBack(j.shares.Leaf(p.e.Queue, p.e.Owner), j.shares.Needs(p.pool, estimate.TotalOf(&p.e.Gang)))
}

// yielding returns the promises of jobs whose queues would borrow: moving ones, and firm ones of the guard. A promise
// with a latest start yields only if that condition was published with it. Jobs that are already being stopped do not
// count, because their queues may no longer borrow.
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

// yield drops the ignored promises: all firm ones, and the moving ones whose nodes are taken. They were not counted in
// the quotas and limits that the job now reaches.
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
