package topology

// This file handles totals in whole nodes of different sizes. It computes the sums that the sizes can reach. A cluster
// has few sizes and a total has at most a few hundred devices, so the table of reachable sums is small. The result is
// exact, because a refusal must be correct.

import (
	"cmp"
	"slices"
)

// sizeCount is the number of nodes of one size that a domain can provide whole.
type sizeCount struct{ size, count int64 }

// mix holds the sizes in a domain, and the composition of a total.
type mix struct {
	sizes    []sizeCount // ascending
	maxLoose int64       // the largest remainder that a partly used node can hold

	rows [][]uint64 // rows[i]: the sums that the first i sizes reach
	sum  int64      // devices in whole nodes
	rest int64      // the remainder
	// The size of the whole node that is broken for the remainder; -1: a partly used node holds it.
	spare int
}

// gather counts the sizes in a domain.
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

// eachMachine visits the nodes of a domain that hold anything.
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

// solve finds a composition of k. It prefers the largest sum of whole nodes, so that the remainder is small. For the
// remainder, it prefers a partly used node to breaking a whole one. It leaves the rows of the composition in m.
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

// shiftOr adds a shifted copy of a bit set to itself. Bits beyond its end are lost.
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

// wanted returns the number of nodes of each size in the sum. It uses large nodes first, so that the number of nodes is
// small.
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

// packMixed chooses nodes of several sizes. It uses racks with the most units first, and places the remainder in a rack
// that is already used if possible.
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

// mixedRemainder returns the node for the remainder: in a used rack if possible, then the smallest that fits, then the
// first.
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
