package topology

// This file answers one question to the horizon. It computes the earliest time of a gang from counts of units, and the
// placement of the tree at that time.
//
// Most gangs need one number of equal units in one domain. A total in whole nodes of one size needs two numbers: the
// whole nodes, and one more node with enough free capacity for the remainder. Only nodes of mixed sizes require
// reachable sums (mixed.go). In that case, the code tries times between two bounds. The lower bound is the earliest
// time with enough free devices on any nodes. The upper bound is the earliest time with enough nodes of one size.

import (
	"math/bits"
	"slices"
)

// question is a search in the horizon.
type question struct {
	*search
	c *forecast

	// These outlooks determine the time. bulk counts units. For a total in whole nodes, bulk counts nodes of the
	// one size, and rest counts nodes that hold the remainder. For mixed sizes there is only pieces, which counts
	// free devices on any nodes.
	bulk, rest, pieces *outlook
	size               int64
	one                *outlook // a single node that holds the complete gang; nil: several nodes are allowed
	wants              []need   // of one domain; nil if they cannot be expressed as numbers of units
	learned            bool
}

// instant returns the earliest time, not before from, at which the gang fits, or Never.
func (q *question) instant(from int64) int64 {
	q.learn()
	switch {
	case q.widest > q.f.plan.racks() && q.demand.apart:
		return Never
	case q.one != nil:
		return max(from, q.c.soonest(0, []need{{q.one, 1}}))
	case q.wants != nil:
		return max(from, q.c.soonest(q.widest, q.wants))
	}
	return q.tried(from)
}

// learn updates the outlooks that determine the time.
func (q *question) learn() {
	if q.learned {
		return
	}
	q.learned = true
	q.wants = q.needs()
	if q.widest > q.f.plan.racks() && !q.demand.apart {
		q.one = q.c.outlook(q.search, q.demand.times(q.demand.units), 0)
	}
}

// needs returns the requirements of one domain; nil if they cannot be expressed in numbers of units.
func (q *question) needs() []need {
	if !q.demand.whole {
		q.bulk = q.c.outlook(q.search, q.demand.rate, 0)
		return []need{{q.bulk, q.demand.units}}
	}
	q.pieces = q.c.outlook(q.search, rate{gpus: 1, den: 1}, 0)
	if sizes := q.pieces.allSizes(); bits.OnesCount64(sizes) == 1 && sizes < 1<<exactBuckets {
		q.size = int64(bits.TrailingZeros64(sizes))
		needs := q.wholes(q.size, 0)
		q.bulk, q.rest = needs[0].outlook, needs[1].outlook
		return slices.DeleteFunc(needs, func(n need) bool { return n.units == 0 })
	}
	return nil
}

// allSizes returns the numbers of devices of all nodes with devices, one bit per bucket.
func (o *outlook) allSizes() (sizes uint64) {
	for _, s := range o.sizes {
		sizes |= s
	}
	return sizes &^ 1
}

// wholes returns the number of nodes of one size that a domain needs: whole ones, and for a remainder one more node
// that holds it. A whole node can hold the remainder too.
func (q *question) wholes(size, only int64) []need {
	whole, rest := q.demand.units/size, q.demand.units%size
	needs := []need{{q.c.outlook(q.search, q.demand.times(size), only), whole}, {}}
	if rest > 0 {
		needs[1] = need{q.c.outlook(q.search, q.demand.times(rest), only), whole + 1}
	}
	return needs
}

// times returns the rate whose unit is several units of this rate. A node counts at most once.
func (r rate) times(units int64) rate {
	n := r.need(units)
	return rate{gpus: r.gpus * units, cpu: n.MilliCPU, mem: n.MemoryBytes, den: 1, part: r.part, apart: true}
}

// tried returns the time of a total in whole nodes of several sizes.
func (q *question) tried(from int64) int64 {
	low := q.c.soonest(q.widest, []need{{q.pieces, q.demand.units}})
	if low == Never {
		return Never
	}
	low, high := max(low, from), int64(Never)
	if largest := bits.Len64(q.pieces.allSizes()) - 1; largest < exactBuckets {
		needs := slices.DeleteFunc(q.wholes(int64(largest), int64(largest)), func(n need) bool { return n.units == 0 })
		high = max(from, q.c.soonest(q.widest, needs))
	}
	h := q.c.h
	h.instants = q.c.instants(h.instants[:0], low, high)
	first, last := -1, len(h.instants)
	for last-first > 1 {
		if middle := (first + last) / 2; q.fits(h.instants[middle]) {
			last = middle
		} else {
			first = middle
		}
	}
	if last < len(h.instants) {
		return h.instants[last]
	}
	return high
}

// fits reports whether the gang fits at a time.
func (q *question) fits(instant int64) bool {
	l := q.seenAt(instant)
	l.shelves = q.f.plan.shelves
	l.cells = slices.Grow(l.cells[:0], len(l.shelves))[:len(l.shelves)]
	for i, sh := range l.shelves {
		l.cells[i] = q.cell(l, sh, i)
	}
	l.sum(q.f)
	q.lens = l
	return q.find()
}

// seenAt returns a lens of the tree at a future time, without counts.
func (q *question) seenAt(instant int64) *lens {
	l := &q.c.h.lens
	l.then, l.instant = q.c, instant
	if key := q.f.keyOf(q.search); !l.special || l.lensKey != key {
		l.become(key, q.search)
		l.selects = slices.Clone(l.selects)
	}
	l.learnKinds(&q.f.kinds)
	return l
}

// place returns the placement of the gang at its earliest time.
func (q *question) place(instant int64) Placement {
	if !q.fits(instant) {
		panic("topology: horizon and tree disagree about a time")
	}
	return q.placement()
}

// cell returns the result of counting a shelf, as far as a placement depends on it. A shelf is counted only if one of
// its nodes may hold the whole gang. There are hundreds of other shelves, and their details are not needed.
func (q *question) cell(l *lens, sh *shelf, i int) cell {
	if q.bulk == nil {
		if heldBy(q.pieces.gains[i], l.instant) == 0 {
			return cell{}
		}
		return l.count(sh)
	}
	units := heldBy(q.bulk.gains[i], l.instant)
	if q.size == 0 {
		if units >= q.demand.units {
			return l.count(sh)
		}
		return cell{units: units}
	}
	loose := q.rest != nil && heldBy(q.rest.gains[i], l.instant) > units
	if (units > 0 || loose) && q.demand.units <= q.size {
		return l.count(sh)
	}
	c := cell{units: units * q.size}
	if units > 0 {
		c.mark(q.size, true)
	}
	if loose {
		c.mark(q.demand.units%q.size, false)
	}
	return c
}
