package share

// This file owns what of the use of queues outlives a leader: what those jobs used that are over, queue by queue. What
// still runs is counted again by whoever comes next, from when it began. While nobody leads nothing decays.

import (
	"cmp"
	"maps"
	"slices"
)

// maxUses is how many are handed on at most; the least go.
const maxUses = 20_000

// Use says what the jobs of a queue used of late that are over.
type Use struct {
	Queue  string
	Owner  string // where the order is between owners; "": of all others
	Amount int64  // in milli-GPU-milliseconds, the older decayed
}

// Uses lists those of all queues, in the order of their names.
func (s *Tree) Uses(now int64) (all []Use) {
	living := s.living(now)
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		own := s.named[name].own
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

// living sums up what those that hold something have used of it, where they are counted.
func (s *Tree) living(now int64) map[*Branch]int64 {
	of := map[*Branch]int64{}
	for _, x := range s.jobs { //order: a sum
		of[x.Leaf] += spent(x.Size, counting(now-x.Since))
	}
	return of
}

// Charge adds to what the jobs of a queue and an owner used that are over.
func (s *Tree) Charge(queue, owner string, amount, now int64) {
	for h := s.Leaf(queue, owner); h != nil; h = h.Parent {
		h.used.change(0, now)
		h.used.sum += amount
	}
}

// Spend counts what a job of this size has used that ran for so long, as if it had ended now.
func (s *Tree) Spend(queue, owner string, size, ran, now int64) {
	s.Charge(queue, owner, spent(size, counting(ran)), now)
}
