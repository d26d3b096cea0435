package topology

// This file owns one question to the horizon: which numbers of which units decide the instant of a gang, and the place
// that the fabric would answer at that instant.
//
// Most gangs are one number of one unit in one domain. A total in whole machines of one size is two numbers: how many
// machines are taken whole, and one more that holds the remainder, whole or not. Only where sizes are mixed is it a
// question of sums (mixed.go). Then instants are tried, between the first at which as many devices are free in any
// pieces, and the first at which machines of one size are enough.

import (
	"math/bits"
	"slices"
)

// question is a search that is put to the horizon.
type question struct {
	*search
	c *forecast

	// These outlooks decide the instant. bulk counts units; for a total in whole machines it counts machines of the one
	// size, and rest those that hold the remainder. Where sizes are mixed there are only the pieces: devices that are free
	// anywhere.
	bulk, rest, pieces *outlook
	size               int64
	one                *outlook // of one machine that holds all; nil: several may
	wants              []need   // of one domain; nil where that cannot be said in numbers of units
	learned            bool
}

// instant is the first instant, not before from, at which the gang fits; Never where it does at none.
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

// learn brings the outlooks that decide up to date.
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

// allSizes is which numbers of devices machines with devices have, a bit per bucket.
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

// times is the rate of which one unit is several of this one, and a machine counts once.
func (r rate) times(units int64) rate {
	n := r.need(units)
	return rate{gpus: r.gpus * units, cpu: n.MilliCPU, mem: n.MemoryBytes, den: 1, part: r.part, apart: true}
}

// tried is the instant of a total in whole machines of several sizes.
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

// fits reports whether the gang fits at an instant.
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

// seenAt is a lens of the fabric as it will be, of which nothing is counted yet.
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

// place is where the gang goes at the instant at which it first fits.
func (q *question) place(instant int64) Placement {
	if !q.fits(instant) {
		panic("topology: the horizon and the fabric disagree about an instant")
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
