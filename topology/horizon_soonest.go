package topology

// This file owns the first instant at which a domain of a level holds what a gang needs. A domain that holds k units
// from an instant on is one in which the k-th smallest of the units' own times is that instant: neither the latest of
// any k members' times nor the earliest of all.

import (
	"cmp"
	"slices"
)

// need is a number of units that one domain must hold.
type need struct {
	*outlook
	units int64
}

// soonest is the first instant at which one domain of a tier holds all that is needed; Never where none does. It
// looks first at the instant that was answered last, and just before it: most often that is the answer still.
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

// begins is when a domain that will hold all that is needed begins to hold it.
func (c *forecast) begins(needs []need, lo, hi int, near int64) (at int64) {
	for _, n := range needs {
		at = max(at, c.kth(n, lo, hi, near))
	}
	return at
}

// remembered is the guess for a question, or room for it in place of an older one.
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

// span is the range of shelves of a domain.
func (c *forecast) span(tier, domain int) (lo, hi int) {
	plan := &c.h.f.plan
	from, to := plan.rackSpan(tier, domain)
	first := plan.tiers[plan.racks()].first
	return int(first[from]), int(first[to])
}

// holdAll reports whether a domain holds all that is needed just before an instant, and at it.
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

// unitsBy is how many units the shelves of a domain hold just before an instant, and at it.
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

// kth is when a domain that will hold a number of units begins to hold it. It looks from near in either direction, and
// on each shelf no further than that shelf alone would need.
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

// appendAfter adds what a shelf gains beyond an instant, until it is enough.
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

// appendBefore adds what a shelf gained before an instant, the last first and with its times negated, until it is
// enough.
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

// nth is the smallest instant by which the gains of a list, in any order, come to that number of units.
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
