package topology

// This file finds the earliest time at which one domain of a level has everything that a gang needs. A domain holds k
// units from the k-th smallest time of its units on.

import (
	"cmp"
	"slices"
)

// need is a number of units that one domain must hold.
type need struct {
	*outlook
	units int64
}

// soonest returns the earliest time at which one domain of a tier meets all needs, or Never. It first tries the last
// answer and the time just before it, because the answer usually stays the same.
func (c *forecast) soonest(tier int, needs []need) int64 {
	memo := needs[0].remembered(tier, needs[0].units)
	best, near, domains := int64(Never), memo.at, len(c.h.f.plan.tiers[tier].domains)
	for d := range domains {
		lo, hi := c.span(tier, d)
		switch before, then := holdAll(needs, lo, hi, near); {
		case !then:
		case !before:
			best = min(best, near)
		case best >= near || heldBefore(needs, lo, hi, best):
			best = c.begins(needs, lo, hi, near)
		}
	}
	if best == Never {
		for d := range domains {
			if lo, hi := c.span(tier, d); heldBefore(needs, lo, hi, best) {
				best = c.begins(needs, lo, hi, near)
			}
		}
	}
	if best < Never {
		memo.at = best
	}
	return best
}

// begins returns the time from which a domain meets all needs. The domain must meet them at some time.
func (c *forecast) begins(needs []need, lo, hi int, near int64) (at int64) {
	for _, n := range needs {
		at = max(at, c.kth(n, lo, hi, near))
	}
	return at
}

// remembered returns the guess for a question. If there is none, it replaces an older guess.
func (o *outlook) remembered(tier int, units int64) *guess {
	for i := range o.guesses {
		if g := &o.guesses[i]; g.tier == tier && g.units == units {
			return g
		}
	}
	g := &o.guesses[o.next%guessLimit]
	o.next++
	*g = guess{tier: tier, units: units, at: g.at}
	return g
}

// span returns the range of shelves of a domain.
func (c *forecast) span(tier, domain int) (lo, hi int) {
	plan := &c.h.f.plan
	from, to := plan.rackSpan(tier, domain)
	first := plan.tiers[plan.racks()].first
	return int(first[from]), int(first[to])
}

// holdAll reports whether a domain meets all needs just before a time, and at that time.
func holdAll(needs []need, lo, hi int, at int64) (before, then bool) {
	before, then = true, true
	for _, n := range needs {
		earlier, units := n.unitsBy(lo, hi, at)
		before, then = before && earlier >= n.units, then && units >= n.units
	}
	return before, then
}

func heldBefore(needs []need, lo, hi int, at int64) bool {
	before, _ := holdAll(needs, lo, hi, at)
	return before
}

// unitsBy returns the number of units on a range of shelves just before a time, and at that time.
func (o *outlook) unitsBy(lo, hi int, at int64) (before, then int64) {
	for _, gains := range o.gains[lo:hi] {
		switch n := after(gains, at); {
		case n == 0:
		case gains[n-1].at < at:
			before += gains[n-1].units
			then += gains[n-1].units
		default:
			then += gains[n-1].units
			if n > 1 {
				before += gains[n-2].units
			}
		}
	}
	return before, then
}

// kth returns the time from which a domain holds a number of units. The domain must hold them at some time. The search
// starts at near in either direction. On each shelf, it goes no further than that shelf alone would need.
func (c *forecast) kth(n need, lo, hi int, near int64) int64 {
	if hi-lo == 1 {
		gains := n.gains[lo]
		at, _ := slices.BinarySearchFunc(gains, n.units, func(g gain, units int64) int { return cmp.Compare(g.units, units) })
		return gains[at].at
	}
	before, then := n.unitsBy(lo, hi, near)
	lack, spare := n.units-then, before-n.units
	list := c.h.gains[:0]
	for _, gains := range n.gains[lo:hi] {
		if lack > 0 {
			list = appendAfter(list, gains, near, lack)
		} else if spare >= 0 {
			list = appendBefore(list, gains, near, spare+1)
		}
	}
	c.h.gains = list
	switch {
	case lack > 0:
		return nth(list, lack)
	case spare >= 0:
		return -nth(list, spare+1)
	}
	return near
}

// appendAfter appends the gains of a shelf after a time, until they are enough.
func appendAfter(list []gain, gains []gain, at, enough int64) []gain {
	i := after(gains, at)
	had := int64(0)
	if i > 0 {
		had = gains[i-1].units
	}
	for ; i < len(gains) && enough > 0; i++ {
		list = append(list, gain{gains[i].at, gains[i].units - had})
		enough -= gains[i].units - had
		had = gains[i].units
	}
	return list
}

// appendBefore appends the gains of a shelf before a time, latest first and with negated times, until they are enough.
func appendBefore(list []gain, gains []gain, at, enough int64) []gain {
	for i := after(gains, at-1) - 1; i >= 0 && enough > 0; i-- {
		units := gains[i].units
		if i > 0 {
			units -= gains[i-1].units
		}
		list = append(list, gain{-gains[i].at, units})
		enough -= units
	}
	return list
}

// nth returns the smallest time by which the gains of an unsorted list add up to a number of units.
func nth(list []gain, units int64) int64 {
	for len(list) > 1 {
		pivot := list[len(list)/2].at
		less, more, below, equal := 0, len(list), int64(0), int64(0)
		for i := 0; i < more; {
			switch at := list[i].at; {
			case at < pivot:
				below += list[i].units
				list[less], list[i] = list[i], list[less]
				less++
				i++
			case at > pivot:
				more--
				list[more], list[i] = list[i], list[more]
			default:
				equal += list[i].units
				i++
			}
		}
		switch {
		case units <= below:
			list = list[:less]
		case units <= below+equal:
			return pivot
		default:
			list, units = list[more:], units-below-equal
		}
	}
	return list[0].at
}
