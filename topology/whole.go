package topology

// This file owns totals in whole machines: machines of which every device is
// taken, and at most one further machine that gives the remainder.
//
// Where the machines are of one size, as they nearly always are, a division shows whether a domain holds the gang.
// Where sizes are mixed it is a question of which sums the sizes reach (mixed.go).

import (
	"math/bits"
	"slices"
)

// oneSize is the number of devices of the machines that can be taken whole, if all have the same number and no other
// machine could give as many; else 0. Then a total has one way only: as many whole machines as go into it, and the
// rest.
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

// largestLoose bounds the remainder that a machine which cannot be taken whole
// could give.
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

// findWholeDomain is the tightest domain of a tier that holds the total; -1 for
// none.
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

// leastWhole is how many devices in whole machines a domain has at least when it
// holds the total.
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

// hasLoose reports whether a rack has a machine for the remainder that need not be
// taken whole. The remainder is below exactBuckets wherever this is asked.
func (s *search) hasLoose(rack int, rest int64) bool {
	lo, hi := s.f.plan.shelfSpan(rack)
	for i := lo; i < hi; i++ {
		if s.lens.cells[i].loose>>bucketOf(rest) != 0 {
			return true
		}
	}
	return false
}

// packWhole chooses the machines for a total that the found domain holds.
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

// chooseEven writes the racks and what each gives to the scratch's chosen list,
// as few racks as possible, and returns the rack whose loose machine gives the remainder; -1 when there is none or one
// of the chosen racks breaks a whole machine for it. In the order of preference:
//   - the fewest racks for the whole machines, one of them with a loose machine
//   - as few racks, one of them chosen for its loose machine
//   - as few racks, one of them breaking a whole machine
//   - one rack more, with a loose machine or a whole one to break
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

// choose writes the fewest racks that give k to the chosen list.
func (s *search) choose(racks []uint64, k int64) {
	w := &s.f.work
	w.chosen = w.chosen[:0]
	takeFewest(racks, k, func(i int, units int64) { w.chosen = append(w.chosen, rankKey(units, i)) })
}

// swapFor looks for a rack with a loose machine for the remainder, such that the whole machines still need no more than
// the fewest racks, and chooses it.
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

// packEvenRack takes whole machines of a rack, the first by id, and for what is
// left over a part of the next.
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

// pickLoose takes the remainder from the tightest machine of a rack that cannot
// be taken whole.
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

// highest is the highest set bit of a bit set that is at most limit; -1 for none.
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
