package share

// This file owns quotas: what a queue is assured, whether it stays within that or borrows, and what it has stopped so
// that its own come back to it.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

// UsualMinRun is for how long a job runs at the least before it is stopped for another, where its queue says nothing.
const UsualMinRun = 600 * second

// Preempts says what a queue has stopped for its jobs, by its own word or that of one above it.
type Preempts struct {
	ByPriority, Reclaim, Shortest bool
	MinRun                        int64 // of its own jobs
	SaysMinRun                    bool  // it, or one above it
}

// change takes over what a queue says itself.
func (p *Preempts) change(q *Preemption) {
	given(&p.ByPriority, q.ByPriority)
	given(&p.Reclaim, q.Reclaim)
	given(&p.Shortest, q.Shortest)
	given(&p.MinRun, q.MinRun)
	p.SaysMinRun = p.SaysMinRun || q.MinRun != nil
}

// IsInside reports whether a queue has jobs of its own stopped.
func (p *Preempts) IsInside() bool { return p.ByPriority || p.Shortest }

// WithinUpTo says of each queue above this one whether all that are assured something below it, and there is one, stay
// within that if they take so much more.
func (h *Branch) WithinUpTo(needs []int64) map[*Branch]bool {
	upTo, assured, within := map[*Branch]bool{}, false, true
	for ; h.Parent != nil; h = h.Parent {
		assured = assured || h.Assured
		within = within && !h.Exceeds(needs)
		upTo[h.Parent] = assured && within
	}
	return upTo
}

// Exceeds reports whether what a queue has and so much more are above what it is assured.
func (h *Branch) Exceeds(more []int64) bool { return exceeded(h.quota, h.has, more) >= 0 }

// takesBack reports whether this queue or one below it takes back what it is assured.
func (h *Branch) takesBack() bool {
	return h.Assured && h.Preempts.Reclaim || slices.ContainsFunc(h.below, (*Branch).takesBack)
}

// Borrows reports whether a queue that takes so much more would borrow what others are assured and may take back.
func (h *Branch) Borrows(needs []int64) bool {
	for ; h.Parent != nil; h = h.Parent {
		if h.Assured && !h.Exceeds(needs) {
			return false
		}
		if slices.ContainsFunc(h.Parent.below, func(o *Branch) bool { return o != h && o.takesBack() }) {
			return true
		}
	}
	return false
}

// IsWithin reports whether a queue that takes so much more has no more than it is assured. Amounts that no quota names
// are not counted.
func (h *Branch) IsWithin(needs []int64) bool {
	for i, quota := range h.quota {
		if quota >= 0 && needs[i] > 0 && h.has[i]+needs[i] > quota {
			return false
		}
	}
	return h.Assured
}

// PartInUse returns how much of its quota a queue has in use, in millionths.
func (h *Branch) PartInUse() (part int64) {
	for i, quota := range h.quota {
		if quota > 0 {
			part = max(part, topology.Scaled(h.has[i], 1_000_000, quota))
		}
	}
	return part
}
