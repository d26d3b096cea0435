package share

// This file has the quotas of queues. A quota is the assured amount of a queue. A queue is within its quota or borrows,
// and it may reclaim its quota by stopping jobs.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

// UsualMinRun is the minimum run time of a job before it is stopped for another, if its queue sets none.
const UsualMinRun = 600 * second

// Preempts has the effective rules by which a queue stops jobs for its own.
type Preempts struct {
	ByPriority, Reclaim, Shortest bool
	MinRun                        int64 // of its own jobs
	SaysMinRun                    bool  // MinRun is set by the queue or an ancestor
}

// change applies the queue's own settings.
func (p *Preempts) change(q *Preemption) {
	given(&p.ByPriority, q.ByPriority)
	given(&p.Reclaim, q.Reclaim)
	given(&p.Shortest, q.Shortest)
	given(&p.MinRun, q.MinRun)
	p.SaysMinRun = p.SaysMinRun || q.MinRun != nil
}

// IsInside reports whether a queue stops jobs of its own.
func (p *Preempts) IsInside() bool { return p.ByPriority || p.Shortest }

// WithinUpTo reports for each ancestor whether the queues between it and this queue stay within their quotas with the
// additional needs. At least one of these queues must have a quota.
func (h *Branch) WithinUpTo(needs []int64) map[*Branch]bool {
	upTo, assured, within := map[*Branch]bool{}, false, true
	for ; h.Parent != nil; h = h.Parent {
		assured = assured || h.Assured
		within = within && !h.Exceeds(needs)
		upTo[h.Parent] = assured && within
	}
	return upTo
}

// Exceeds reports whether the usage of a queue with additional needs exceeds its quota.
func (h *Branch) Exceeds(more []int64) bool { return exceeded(h.quota, h.has, more) >= 0 }

// takesBack reports whether this queue or a descendant reclaims its quota.
func (h *Branch) takesBack() bool {
	return h.Assured && h.Preempts.Reclaim || slices.ContainsFunc(h.below, (*Branch).takesBack)
}

// Borrows reports whether a queue with additional needs would borrow from queues that may reclaim their quotas.
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

// IsWithin reports whether the usage of a queue with additional needs is within its quota. It ignores amounts without a
// quota.
func (h *Branch) IsWithin(needs []int64) bool {
	for i, quota := range h.quota {
		if quota >= 0 && needs[i] > 0 && h.has[i]+needs[i] > quota {
			return false
		}
	}
	return h.Assured
}

// PartInUse returns the used part of a queue's quota, in millionths.
func (h *Branch) PartInUse() (part int64) {
	for i, quota := range h.quota {
		if quota > 0 {
			part = max(part, topology.Scaled(h.has[i], 1_000_000, quota))
		}
	}
	return part
}
