package policy

// This file owns what of the use of queues outlives a leader: what those jobs used that are over, queue by queue. What
// still runs is counted again by whoever comes next, from when it began. While nobody leads nothing decays.

import (
	"cmp"
	"maps"
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
)

// maxUses is how many are handed on at most; the least go.
const maxUses = 20_000

// Use is what the jobs of a queue used of late that are over.
type Use struct {
	Queue  string
	Owner  string // where the order is between owners; "": of all others
	Amount int64  // in milli-GPU-milliseconds, the older decayed
}

// Uses are those of all queues, in the order of their names.
func (j *Judgement) Uses(nowNs int64) (all []Use) {
	if j.shares == nil {
		return nil
	}
	j.now = max(j.now, nowNs)
	j.settleShares() // what has ended since the last pass is over
	now := j.now
	living := j.shares.living(now)
	for _, name := range slices.Sorted(maps.Keys(j.shares.named)) {
		own := j.shares.named[name].own
		rest := own.used.now(now) - living[own]
		for _, owner := range slices.Sorted(maps.Keys(own.owners)) {
			o := own.owners[owner]
			n := o.used.now(now) - living[o]
			if rest -= o.used.now(now); n > 0 {
				all = append(all, Use{name, owner, n})
			}
		}
		if rest > 0 {
			all = append(all, Use{Queue: name, Amount: rest})
		}
	}
	if len(all) > maxUses {
		slices.SortStableFunc(all, func(a, b Use) int { return cmp.Compare(b.Amount, a.Amount) })
		all = all[:maxUses]
		slices.SortFunc(all, func(a, b Use) int {
			return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Owner, b.Owner))
		})
	}
	return all
}

// living is what those that hold something have used of it, where they are counted.
func (s *shares) living(now int64) map[*branch]int64 {
	of := map[*branch]int64{}
	for _, x := range s.jobs { //order: a sum
		of[x.leaf] += spent(x.size, counting(now-x.since))
	}
	return of
}

// Recollect goes on from what an earlier leader had.
func (j *Judgement) Recollect(uses []Use, nowNs int64) {
	for _, u := range uses {
		if j.shares != nil {
			j.shares.leaf(u.Queue, u.Owner).charge(u.Amount, nowNs)
		}
	}
}

// Spent counts what an attempt used that is over, as if it had ended now.
func (j *Judgement) Spent(t *estimate.Traits, ran, nowNs int64) {
	if j.shares != nil {
		j.shares.leaf(t.Queue, t.Owner).charge(spent(t.Size, counting(ran)), nowNs)
	}
}

// charge adds to what was used, here and in all queues above.
func (h *branch) charge(amount, now int64) {
	for ; h != nil; h = h.parent {
		h.used.change(0, now)
		h.used.sum += amount
	}
}
