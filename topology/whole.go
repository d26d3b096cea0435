package topology

// This file handles totals in whole nodes: nodes whose devices are all taken, and at most one further node for the
// remainder.
//
// If all nodes have one size, which is the usual case, a division shows whether a domain holds the gang. Mixed sizes
// require the sums that the sizes can reach (mixed.go).

import (
	"math/bits"
	"slices"
)

// oneSize returns the number of devices of the nodes that can be taken whole, if all have the same number and no other
// node could provide as many. Otherwise it returns 0. With one size, a total has only one composition: as many whole
// nodes as possible, and the remainder.
func (l *lens) oneSize() int64 {
	one := 0
	for b, n := range l.whole {
		if n == 0 {
			continue
		}
		if one > 0 || b >= exactBuckets {
			return 0
		}
		one = b
	}
	if l.largestLoose() >= int64(one) {
		return 0
	}
	return int64(one)
}

// largestLoose returns an upper bound of the remainder that a partly used node could hold.
func (l *lens) largestLoose() int64 {
	for b := len(l.loose) - 1; b >= 0; b-- {
		if l.loose[b] > 0 {
			if b < exactBuckets {
				return int64(b)
			}
			return unitLimit
		}
	}
	return 0
}

// findWholeDomain returns the tightest domain of a tier that holds the total, or -1.
func (s *search) findWholeDomain(t int) int {
	tier := &s.lens.tiers[t]
	tier.rank()
	for _, key := range tier.order[from(tier.order, s.leastWhole()):] {
		if s.wholeFits(t, keyIndex(key)) {
			return keyIndex(key)
		}
	}
	return -1
}

// leastWhole returns the minimum number of devices in whole nodes of a domain that holds the total.
func (s *search) leastWhole() int64 {
	k := s.demand.units
	if n := s.lens.oneSize(); n > 0 {
		return k - k%n
	}
	return max(0, k-s.lens.largestLoose())
}

// wholeFits reports whether a domain holds the total.
func (s *search) wholeFits(tier, index int) bool {
	n := s.lens.oneSize()
	if n == 0 {
		s.f.work.mix.gather(s, tier, index)
		return s.f.work.mix.solve(s.demand.units)
	}
	machines := s.lens.tiers[tier].units[index] / n
	whole, rest := s.demand.units/n, s.demand.units%n
	if machines != whole || rest == 0 {
		return machines >= whole
	}
	lo, hi := s.f.plan.rackSpan(tier, index)
	for rack := lo; rack < hi; rack++ {
		if s.hasLoose(rack, rest) {
			return true
		}
	}
	return false
}

// hasLoose reports whether a rack has a partly used node for the remainder. The remainder must be below exactBuckets.
func (s *search) hasLoose(rack int, rest int64) bool {
	lo, hi := s.f.plan.shelfSpan(rack)
	for i := lo; i < hi; i++ {
		if s.lens.cells[i].loose>>bucketOf(rest) != 0 {
			return true
		}
	}
	return false
}

// packWhole chooses the nodes for a total that fits in the found domain.
func (s *search) packWhole() {
	n := s.lens.oneSize()
	if n == 0 {
		s.packMixed()
		return
	}
	rest := s.demand.units % n
	remainderIn := s.chooseEven(n, rest)
	for _, key := range s.f.work.chosen {
		s.packEvenRack(keyIndex(key), keyUnits(key), n)
	}
	if remainderIn >= 0 {
		s.pickLoose(remainderIn, rest)
	}
}

// chooseEven writes the racks and their units to the list chosen, and returns the rack whose partly used node holds the
// remainder. It returns -1 if there is no remainder, or if one of the chosen racks breaks a whole node for it. It
// prefers, in this order:
//   - the fewest racks for the whole nodes, one of them with a partly used node
//   - as few racks, one of them chosen for its partly used node
//   - as few racks, one of them breaking a whole node
//   - one more rack, with a partly used node or a whole one to break
func (s *search) chooseEven(n, rest int64) (remainderIn int) {
	w, k := &s.f.work, s.demand.units
	racks := s.racksOf(s.tier, s.index, k-rest)
	s.choose(racks, k-rest)
	if rest == 0 {
		return -1
	}
	for _, key := range w.chosen {
		if s.hasLoose(keyIndex(key), rest) {
			return keyIndex(key)
		}
	}
	fewest := len(w.chosen)
	if rack := s.swapFor(k-rest, rest, fewest); rack >= 0 {
		return rack
	}
	racks = s.racksOf(s.tier, s.index, k-rest)
	if countFewest(racks, k) <= fewest {
		s.choose(racks, k)
		return -1
	}
	s.choose(racks, k-rest)
	lo, hi := s.f.plan.rackSpan(s.tier, s.index)
	for rack := lo; rack < hi; rack++ {
		if s.hasLoose(rack, rest) {
			return rack
		}
	}
	w.racks = s.appendRacks(w.racks[:0], s.tier, s.index)
	slices.Sort(w.racks)
	s.choose(w.racks, k)
	return -1
}

// choose writes the fewest racks with k units to the list chosen.
func (s *search) choose(racks []uint64, k int64) {
	w := &s.f.work
	w.chosen = w.chosen[:0]
	takeFewest(racks, k, func(i int, units int64) { w.chosen = append(w.chosen, rankKey(units, i)) })
}

// swapFor searches a rack with a partly used node for the remainder, such that the whole nodes still need no more than
// the fewest racks. It chooses that rack.
func (s *search) swapFor(k, rest int64, fewest int) int {
	w := &s.f.work
	all := s.appendRacks(nil, s.tier, s.index)
	slices.Sort(all)
	for at, key := range all {
		if !s.hasLoose(keyIndex(key), rest) {
			continue
		}
		others := append(append(w.some[:0], all[:at]...), all[at+1:]...)
		w.some = others
		here := min(keyUnits(key), k)
		if 1+countFewest(others, k-here) > fewest {
			continue
		}
		s.choose(others, k-here)
		w.chosen = append(w.chosen, rankKey(here, keyIndex(key)))
		return keyIndex(key)
	}
	return -1
}

// packEvenRack takes whole nodes of a rack, first by ID. It takes the remainder from a part of the next one.
func (s *search) packEvenRack(rack int, units, n int64) {
	lo, hi := s.f.plan.shelfSpan(rack)
	for i := lo; i < hi; i++ {
		sh := s.f.plan.shelves[i]
		for j := range sh.rooms {
			if units == 0 {
				return
			}
			if _, _, whole := s.lens.look(sh, j); whole {
				s.pick(i, j, min(units, n))
				units -= min(units, n)
			}
		}
	}
}

// pickLoose takes the remainder from the tightest partly used node of a rack.
func (s *search) pickLoose(rack int, rest int64) {
	lo, hi := s.f.plan.shelfSpan(rack)
	var at machineAt
	best := int64(unitLimit + 1)
	for i := lo; i < hi; i++ {
		sh := s.f.plan.shelves[i]
		for j := range sh.rooms {
			if _, size, whole := s.lens.look(sh, j); !whole && size >= rest && size < best {
				best, at = size, machineAt{int32(i), int32(j)}
			}
		}
	}
	s.f.work.picks = append(s.f.work.picks, pick{at, rest})
}

// highest returns the highest set bit of a bit set that is at most limit, or -1.
func highest(set []uint64, limit int64) int64 {
	for i := limit / 64; i >= 0; i-- {
		word := set[i]
		if i == limit/64 {
			word &= ^uint64(0) >> (63 - uint(limit%64))
		}
		if word != 0 {
			return i*64 + int64(63-bits.LeadingZeros64(word))
		}
	}
	return -1
}
