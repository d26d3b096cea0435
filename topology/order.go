package topology

// This file orders domains by their number of units. The keys are sorted, so that a binary search finds the smallest
// domain that is large enough. Ties are broken by the order of names.

import "slices"

const (
	rankBits  = 24
	rankUnits = 1<<(64-rankBits) - 1
)

// rankKey packs units and an index into a key. Keys sort by units, then by index.
func rankKey(units int64, i int) uint64 {
	return uint64(min(units, rankUnits))<<rankBits | uint64(i)
}

func keyUnits(k uint64) int64 { return int64(k >> rankBits) }
func keyIndex(k uint64) int   { return int(k & (1<<rankBits - 1)) }

// rank sorts the domains by units, if necessary.
func (t *tierCount) rank() {
	if t.ranked {
		return
	}
	t.order = t.order[:0]
	for i, u := range t.units {
		t.order = append(t.order, rankKey(u, i))
	}
	slices.Sort(t.order)
	t.ranked = true
}

// from returns the position of the smallest domain with at least that many units.
func from(order []uint64, units int64) int {
	i, _ := slices.BinarySearch(order, rankKey(units, 0))
	return i
}

// scanLimit is the number of linear searches before the domains are sorted. Sorting does not pay for a rate that is
// used once or twice.
const scanLimit = 4

// most returns the domain with the most units, the first among equals.
func (t *tierCount) most() int {
	best := 0
	if t.scans++; t.scans > scanLimit {
		t.rank()
	}
	if t.ranked {
		return keyIndex(t.order[from(t.order, keyUnits(t.order[len(t.order)-1]))])
	}
	for i, u := range t.units {
		if u > t.units[best] {
			best = i
		}
	}
	return best
}

// tightest returns the smallest domain with at least that many units, the first among equals, or -1.
func (t *tierCount) tightest(units int64) int {
	best := -1
	for i, u := range t.units {
		if u >= units && (best < 0 || u < t.units[best]) {
			best = i
		}
	}
	return best
}

// moveKey replaces one key of a sorted list.
func moveKey(order []uint64, old, now uint64) {
	i, _ := slices.BinarySearch(order, old)
	j, _ := slices.BinarySearch(order, now)
	if i < j {
		copy(order[i:j-1], order[i+1:j])
		order[j-1] = now
	} else {
		copy(order[j+1:i+1], order[j:i])
		order[j] = now
	}
}

// takeFewest takes k units from ascending keys, from as few keys as possible. It takes the largest keys in full until
// one key can hold the remainder. It then takes the remainder from the smallest key that can hold it, so that large
// ones stay whole, and from the first among equals. The keys together must hold k.
func takeFewest(order []uint64, k int64, take func(i int, units int64)) {
	for k > 0 {
		most := keyUnits(order[len(order)-1])
		first := from(order, most)
		next := first
		for ; next < len(order) && k > most; next++ {
			take(keyIndex(order[next]), most)
			k -= most
		}
		if next == len(order) {
			order = order[:first]
			continue
		}
		if at := from(order[:first], k); at < first {
			next = at
		}
		take(keyIndex(order[next]), k)
		return
	}
}
