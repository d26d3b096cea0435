package topology

// This file owns outlooks: the horizon seen through one rate, as a lens is the fabric seen through one. An outlook
// knows for each shelf how many units its machines hold and when, and counts a shelf again only when its courses have
// changed.
//
// The alternative, to apply one end after another until the gang fits, costs a placement for each: 10 ms for a gang in
// one rack of a full cluster of 10,000 machines. The units' own times are numbers, and the instant of the gang is the
// k-th smallest of them in some domain (horizon_soonest.go).

import (
	"cmp"
	"slices"
)

// gain says that a shelf holds that number of units from an instant on, until the next gain.
type gain struct{ at, units int64 }

// outlookKey holds the values that two questions must share to use the same outlook.
type outlookKey struct {
	lensKey
	size int32 // only machines with this number of devices; 0: any
}

type outlook struct {
	outlookKey
	lens   lens         // by which machines are chosen and units counted; nothing is summed in it
	gains  [][]gain     // per shelf, ascending; what a list holds is never written to
	sizes  []uint64     // per shelf: which numbers of devices its machines have, a bit per bucket
	stamps []uint64     // of the rows that were counted
	others []shelfGains // of each row what was counted before that: what is kept there comes and goes
	used   uint64

	guesses [guessLimit]guess
	next    int
}

// shelfGains says what the machines of one shelf hold and when, and which sizes they have.
type shelfGains struct {
	stamp uint64 // of the row
	gains []gain
	sizes uint64
}

// guess holds the last answer, which is usually still true, or nearly.
type guess struct {
	tier  int
	units int64
	at    int64
}

const guessLimit = 8

// outlookBudget bounds the memory of all outlooks of one basis; outlookCost is what one takes per machine.
const (
	outlookBudget = 64 << 20
	outlookCost   = 32
)

// outlook finds the outlook of a search for a rate, or makes it, and brings it up to date.
func (c *forecast) outlook(s *search, r rate, size int64) *outlook {
	r.whole = false
	key := outlookKey{lensKey: c.h.f.keyOf(s), size: int32(size)}
	key.rate = r
	o := c.outlooks[key]
	if o == nil {
		for len(c.outlooks) >= max(lensFewest, outlookBudget/(outlookCost*(c.h.f.Len()+1))) {
			c.dropOutlook()
		}
		o = &outlook{outlookKey: key}
		o.lens.become(key.lensKey, s)
		o.lens.selects = slices.Clone(s.g.Selector)
		c.outlooks[key] = o
	}
	c.clock++
	o.used = c.clock
	o.refresh(c)
	return o
}

// dropOutlook forgets the outlook that has not been used for longest.
func (c *forecast) dropOutlook() { forgetOldest(c.outlooks, func(o *outlook) uint64 { return o.used }) }

// refresh counts the rows again that have changed since they were counted.
func (o *outlook) refresh(c *forecast) {
	if o.lens.kinds != c.h.f.kinds.version {
		clear(o.stamps)
		clear(o.others)
	}
	o.lens.learnKinds(&c.h.f.kinds)
	for n := len(c.rows); len(o.stamps) < n; {
		o.stamps, o.sizes, o.gains = append(o.stamps, 0), append(o.sizes, 0), append(o.gains, nil)
		o.others = append(o.others, shelfGains{})
	}
	o.stamps, o.sizes, o.gains = o.stamps[:len(c.rows)], o.sizes[:len(c.rows)], o.gains[:len(c.rows)]
	o.others = o.others[:len(c.rows)]
	for i, stamp := range c.stamps {
		if o.stamps[i] != stamp {
			o.renew(c, i, stamp)
		}
	}
}

// renew brings one row up to date. Findings share what was there before.
func (o *outlook) renew(c *forecast, i int, stamp uint64) {
	was := shelfGains{o.stamps[i], o.gains[i], o.sizes[i]}
	now := o.others[i]
	if now.stamp != stamp {
		now = shelfGains{stamp: stamp, gains: was.gains}
		var held []gain
		if held, now.sizes = o.count(c, i); !slices.Equal(was.gains, held) {
			now.gains = slices.Clone(held)
		}
	}
	o.stamps[i], o.gains[i], o.sizes[i], o.others[i] = stamp, now.gains, now.sizes, was
}

// count counts one row. Its answer is true until the next row is counted.
func (o *outlook) count(c *forecast, i int) (held []gain, sizes uint64) {
	r := c.row(i)
	list := c.h.gains[:0]
	for j, s := range r.shelf.seats {
		steps := r.courses[j].steps
		if len(steps) == 0 || !o.lens.serves(r.shelf, j) || o.lens.out[s.id] {
			continue
		}
		gpus := steps[0].room.gpus
		sizes |= 1 << bucketOf(int64(gpus))
		if o.size > 0 && gpus != o.size {
			continue
		}
		had := int64(0)
		for n := range steps {
			if units := o.unitsOf(&steps[n]); units > had {
				list = append(list, gain{steps[n].at, units - had})
				had = units
			}
		}
	}
	slices.SortFunc(list, func(a, b gain) int { return cmp.Compare(a.at, b.at) })
	sum := int64(0)
	held = c.h.sums[:0]
	for _, g := range list {
		sum += g.units
		if n := len(held); n > 0 && held[n-1].at == g.at {
			held[n-1].units = sum
		} else {
			held = append(held, gain{g.at, sum})
		}
	}
	c.h.sums, c.h.gains = held, list
	return held, sizes
}

// unitsOf counts the units of one machine.
func (o *outlook) unitsOf(s *roomStep) int64 {
	units, size, _ := o.lens.grade(&s.room, s.parts)
	if size == 0 {
		return 0
	}
	return units
}

// after is the index of the first gain of a shelf beyond an instant.
func after(gains []gain, at int64) int {
	low, high := 0, len(gains)
	for low < high {
		if middle := int(uint(low+high) / 2); gains[middle].at <= at {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// heldBy is how many units a shelf holds at an instant.
func heldBy(gains []gain, at int64) int64 {
	if n := after(gains, at); n > 0 {
		return gains[n-1].units
	}
	return 0
}
