package topology

// This file chooses the racks of a domain, and the nodes of a rack, for a gang of units.

import (
	"math"
	"slices"
)

// packUnits chooses racks and nodes for a gang that fits in the found domain.
func (s *search) packUnits() {
	k := s.demand.units
	if s.tier == s.f.plan.racks() {
		s.packRack(s.index, k)
		return
	}
	takeFewest(s.racksOf(s.tier, s.index, k), k, s.packRack)
}

// racksOf returns the racks of a domain by ascending units. If some subdomains suffice with the same number of racks,
// it omits the others, so that the gang spans as few subdomains as possible.
func (s *search) racksOf(tier, index int, k int64) []uint64 {
	w, plan := &s.f.work, &s.f.plan
	w.racks = s.appendRacks(w.racks[:0], tier, index)
	slices.Sort(w.racks)
	if tier+1 >= plan.racks() {
		return w.racks
	}
	fewest := countFewest(w.racks, k)
	parts := plan.tiers[tier].first[index : index+2]
	w.blocks = w.blocks[:0]
	for i := parts[0]; i < parts[1]; i++ {
		if u := s.lens.tiers[tier+1].units[i]; u > 0 {
			w.blocks = append(w.blocks, rankKey(u, int(i)))
		}
	}
	slices.Sort(w.blocks)
	for n := 2; n < min(len(w.blocks), narrowLimit); n++ {
		w.some = w.some[:0]
		for _, b := range w.blocks[len(w.blocks)-n:] {
			w.some = s.appendRacks(w.some, tier+1, keyIndex(b))
		}
		slices.Sort(w.some)
		if countFewest(w.some, k) == fewest {
			return w.some
		}
	}
	return w.racks
}

// narrowLimit limits the number of subdomains to try before all are used.
const narrowLimit = 9

// appendRacks appends the racks of a domain that hold anything.
func (s *search) appendRacks(racks []uint64, tier, index int) []uint64 {
	lo, hi := s.f.plan.rackSpan(tier, index)
	units := s.lens.tiers[s.f.plan.racks()].units
	for i := lo; i < hi; i++ {
		if units[i] > 0 {
			racks = append(racks, rankKey(units[i], i))
		}
	}
	return racks
}

// countFewest returns the smallest number of sorted keys that hold k units. It returns a huge number if all keys
// together do not.
func countFewest(order []uint64, k int64) int {
	n := 0
	for i := len(order) - 1; k > 0; i-- {
		if i < 0 {
			return math.MaxInt32
		}
		k -= keyUnits(order[i])
		n++
	}
	return n
}

// packRack takes k units from the nodes of one rack. It breaks as few whole nodes as possible by using partly used
// nodes first. It then uses as few nodes as possible, and fills the last one best.
func (s *search) packRack(rack int, k int64) {
	w := &s.f.work
	w.loose, w.whole = w.loose[:0], w.whole[:0]
	var looseUnits, allUnits int64
	lo, hi := s.f.plan.shelfSpan(rack)
	for i := lo; i < hi; i++ {
		if s.lens.cells[i].units == 0 {
			continue
		}
		sh := s.f.plan.shelves[i]
		for j := range sh.rooms {
			_, size, whole := s.lens.look(sh, j)
			if size == 0 {
				continue
			}
			allUnits += size
			key := rankKey(size, (i-lo)*shelfLimit+j)
			if whole {
				w.whole = append(w.whole, key)
			} else {
				w.loose = append(w.loose, key)
				looseUnits += size
			}
		}
	}
	take := func(i int, units int64) { s.pick(lo, i, units) }
	if k == allUnits {
		takeAll(w.loose, take)
		takeAll(w.whole, take)
		return
	}
	slices.Sort(w.loose)
	slices.Sort(w.whole)
	k = takeWhole(w.whole, k, looseUnits, take)
	takeFewest(w.loose, k, take)
}

// takeWhole takes whole nodes, largest first, until the partly used nodes hold the remainder. It returns that
// remainder.
func takeWhole(whole []uint64, k, looseUnits int64, take func(int, int64)) int64 {
	for k > looseUnits {
		most := keyUnits(whole[len(whole)-1])
		first := from(whole, most)
		next := first
		for ; next < len(whole) && k > looseUnits && k >= most; next++ {
			take(keyIndex(whole[next]), most)
			k -= most
		}
		if k <= looseUnits {
			break
		}
		if next == len(whole) {
			whole = whole[:first]
			continue
		}
		if at := from(whole[:first], k); at < first {
			next = at
		}
		take(keyIndex(whole[next]), k)
		return 0
	}
	return k
}

func takeAll(order []uint64, take func(int, int64)) {
	for _, key := range order {
		take(keyIndex(key), keyUnits(key))
	}
}

// pick records units of a node, whose position is counted from the first shelf of its rack.
func (s *search) pick(firstShelf, ordinal int, units int64) {
	s.f.work.picks = append(s.f.work.picks, pick{
		machineAt{int32(firstShelf + ordinal/shelfLimit), int32(ordinal % shelfLimit)}, units,
	})
}
