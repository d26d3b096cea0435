package topology

// This file owns totals in whole machines of different sizes: which sums the
// sizes reach. A cluster has a handful of sizes and a total is a few hundred devices, so a table of reachable sums is
// small. It is exact, because "it does not fit" must be true.

import (
	"cmp"
	"slices"
)

// sizeCount is how many machines of one size a domain could give whole.
type sizeCount struct{ size, count int64 }

// mix is the sizes of a domain, and how a total is made of them.
type mix struct {
	sizes    []sizeCount // ascending
	maxLoose int64       // the largest remainder that a loose machine gives

	rows  [][]uint64 // rows[i]: the sums that the first i sizes reach
	sum   int64      // what the whole machines give
	rest  int64      // the remainder
	spare int        // the size that is broken for it; -1: a loose machine's
}

// gather counts the sizes of a domain.
func (m *mix) gather(s *search, tier, index int) {
	m.sizes, m.maxLoose = m.sizes[:0], 0
	s.eachMachine(tier, index, func(_ machineAt, size int64, whole bool) {
		if !whole {
			m.maxLoose = max(m.maxLoose, size)
			return
		}
		at, ok := slices.BinarySearchFunc(m.sizes, size, func(c sizeCount, size int64) int {
			return cmp.Compare(c.size, size)
		})
		if !ok {
			m.sizes = slices.Insert(m.sizes, at, sizeCount{size: size})
		}
		m.sizes[at].count++
	})
}

// eachMachine visits the machines of a domain that hold anything.
func (s *search) eachMachine(tier, index int, visit func(at machineAt, size int64, whole bool)) {
	lo, hi := s.f.plan.rackSpan(tier, index)
	for rack := lo; rack < hi; rack++ {
		from, to := s.f.plan.shelfSpan(rack)
		for i := from; i < to; i++ {
			sh := s.f.plan.shelves[i]
			for j := range sh.rooms {
				if _, size, whole := s.lens.look(sh, j); size > 0 {
					visit(machineAt{int32(i), int32(j)}, size, whole)
				}
			}
		}
	}
}

// solve looks for a way to make up k: the largest sum of whole machines first,
// so that the remainder is small, and a loose machine for it before one that
// would be broken. It leaves the rows of the way it found.
func (m *mix) solve(k int64) bool {
	m.fill(k)
	m.sum, m.spare = highest(m.rows[len(m.sizes)], k), -1
	if m.rest = k - m.sum; m.rest <= m.maxLoose {
		return true
	}
	for i := range m.sizes {
		m.sizes[i].count--
		m.fill(k)
		m.sizes[i].count++
		m.sum, m.spare = highest(m.rows[len(m.sizes)], k), i
		if m.rest = k - m.sum; m.rest <= m.sizes[i].size {
			return true
		}
	}
	return false
}

// fill computes the reachable sums up to k.
func (m *mix) fill(k int64) {
	words := int(k/64 + 1)
	for len(m.rows) <= len(m.sizes) {
		m.rows = append(m.rows, nil)
	}
	for i := 0; i <= len(m.sizes); i++ {
		m.rows[i] = slices.Grow(m.rows[i][:0], words)[:words]
		if i == 0 {
			clear(m.rows[0])
			m.rows[0][0] = 1
			continue
		}
		copy(m.rows[i], m.rows[i-1])
		size, left := m.sizes[i-1].size, m.sizes[i-1].count
		for step := int64(1); left > 0; step *= 2 {
			n := min(step, left)
			if n > k/size {
				n = min(left, k/size)
				shiftOr(m.rows[i], n*size)
				break
			}
			shiftOr(m.rows[i], n*size)
			left -= n
		}
	}
}

// shiftOr adds to a bit set itself, shifted up; bits beyond its end are lost.
func shiftOr(set []uint64, by int64) {
	words, rest := int(by/64), uint(by%64)
	for i := len(set) - 1; i >= words; i-- {
		word := set[i-words] << rest
		if rest > 0 && i > words {
			word |= set[i-words-1] >> (64 - rest)
		}
		set[i] |= word
	}
}

// wanted is how many machines of each size make up the sum, large ones first:
// fewer machines.
func (m *mix) wanted() []int64 {
	want := make([]int64, len(m.sizes))
	sum := m.sum
	for i := len(m.sizes) - 1; i >= 0; i-- {
		size, count := m.sizes[i].size, m.sizes[i].count
		if i == m.spare {
			count--
		}
		n := min(count, sum/size)
		for !isSet(m.rows[i], sum-n*size) {
			n--
		}
		want[i] = n
		sum -= n * size
	}
	return want
}

func isSet(set []uint64, i int64) bool { return set[i/64]>>(i%64)&1 == 1 }

// packMixed chooses machines of several sizes: racks that have most first, and the remainder in a rack that is already
// used where one can give it.
func (s *search) packMixed() {
	m := &s.f.work.mix
	m.gather(s, s.tier, s.index)
	m.solve(s.demand.units)
	want := m.wanted()
	racks := s.appendRacks(s.f.work.racks[:0], s.tier, s.index)
	slices.Sort(racks)
	s.f.work.racks = racks
	for i := len(racks) - 1; i >= 0; i-- {
		s.eachMachine(s.f.plan.racks(), keyIndex(racks[i]), func(at machineAt, size int64, whole bool) {
			if !whole {
				return
			}
			if j := m.sizeIndex(size); want[j] > 0 {
				want[j]--
				s.f.work.picks = append(s.f.work.picks, pick{at, size})
			}
		})
	}
	if m.rest > 0 {
		s.f.work.picks = append(s.f.work.picks, pick{s.mixedRemainder(m), m.rest})
	}
}

func (m *mix) sizeIndex(size int64) int {
	return slices.IndexFunc(m.sizes, func(c sizeCount) bool { return c.size == size })
}

// mixedRemainder finds the machine for the remainder: in a rack that is used,
// then the tightest, then the first.
func (s *search) mixedRemainder(m *mix) machineAt {
	used := map[int32]bool{}
	taken := map[machineAt]bool{}
	for _, p := range s.f.work.picks {
		used[s.f.plan.rackOf[p.shelf]] = true
		taken[p.machineAt] = true
	}
	var best machineAt
	bestSize, bestUsed := int64(-1), false
	s.eachMachine(s.tier, s.index, func(at machineAt, size int64, whole bool) {
		fits := !whole && m.spare < 0 && size >= m.rest ||
			whole && m.spare >= 0 && size == m.sizes[m.spare].size && !taken[at]
		here := used[s.f.plan.rackOf[at.shelf]]
		better := bestSize < 0 || here && !bestUsed || here == bestUsed && size < bestSize
		if fits && better {
			best, bestSize, bestUsed = at, size, here
		}
	})
	return best
}
