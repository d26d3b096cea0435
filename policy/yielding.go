package policy

// This file owns that what a queue is assured comes back though room is kept for another. The guard's firm promise to a
// job whose machines nobody must leave has no latest time, and may stand for a day: where the only ones who have more
// than their quotas are on those machines, they would be safe from whoever takes back his own for as long. So such a
// promise yields, and one that moves anyway does, unless its job would stay within its own quota as well; the next pass
// makes another one.

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

// yielding are the promises that move, and the firm ones of the guard without a latest time, to jobs that would have
// more than is assured to their queues.
func (j *Judgement) yielding(h *hunting) (all []*promise) {
	for _, p := range slices.Concat(j.firm, j.moving) {
		if p.isStopping() || p.firm && p.bound < topology.Never || p.e.Job == h.e.Job || !h.leaf.preempts.reclaim {
			continue
		}
		needs := j.shares.needs(p.pool, totalOf(&p.e.Gang))
		if !j.shares.leaf(p.e.Queue, p.e.Owner).withinUpTo(needs)[j.shares.root] {
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
