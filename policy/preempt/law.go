package preempt

// This file owns the law that a search for victims keeps to, beside the room: quotas and limits.

import (
	"slices"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// statutes are the law that a hunt goes by: what is reclaimed is above the quotas that it counts in, for each victim
// though the others have gone, and the job exceeds no limit once all have.
type statutes struct {
	*Look
	under   map[*share.Branch][]int // chosen, of each queue that must have more than its quota
	refused map[*share.Branch]int   // since somebody was chosen
}

// fewRefusals is after how many a queue is taken to have nothing left above its quota.
const fewRefusals = 64

// Add chooses a victim.
func (l *statutes) Add(i int) bool {
	c := &l.all[i]
	for _, h := range c.loans {
		if l.refused[h] >= fewRefusals {
			return false
		}
	}
	l.Tree.Count(c.hold, -1)
	for _, h := range c.loans {
		l.under[h] = append(l.under[h], i)
	}
	for _, h := range c.loans {
		if !l.isAbove(h) {
			l.refused[h]++
			l.Drop(i)
			return false
		}
	}
	return true
}

// Drop chooses one no more.
func (l *statutes) Drop(i int) {
	c := &l.all[i]
	l.Tree.Count(c.hold, 1)
	for _, h := range c.loans {
		l.under[h] = slices.DeleteFunc(l.under[h], func(o int) bool { return o == i })
		l.refused[h] = min(l.refused[h], fewRefusals-1)
	}
}

// isAbove reports whether a queue has more than its quota without each of those that are chosen, but for that one.
func (l *statutes) isAbove(h *share.Branch) bool {
	for _, i := range l.under[h] {
		if !h.Exceeds(l.all[i].needs) {
			return false
		}
	}
	return true
}

// Enough reports whether no limit is in the way of the job any more.
func (l *statutes) Enough(p topology.Placement) bool {
	if l.Fixed && l.Tree.Beyond(l.Leaf, l.Needs) != nil {
		return false
	}
	return l.Tree.Over(l.Leaf, l.Owner, l.Needs, p.Nodes()) == nil
}
