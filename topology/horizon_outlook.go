package topology

// This file has the outlooks. An outlook shows the horizon for one rate, as a lens shows the tree for one rate. For
// each shelf, it knows how many units the nodes hold at which time. It counts a shelf again only after a change of its
// courses.
//
// Applying one end after another until the gang fits would cost one placement per end: 10 ms for a gang in one rack of
// a full cluster of 10,000 nodes. Instead, each unit has a time, and the earliest time of the gang is the k-th smallest
// of them in some domain (horizon_soonest.go).

import (
	"cmp"
	"slices"
)

// gain is the number of units that a shelf holds from a time on, until the next gain.
type gain struct{ at, units int64 }

// outlookKey holds the values that two questions must share to use the same outlook.
type outlookKey struct {
	lensKey
	size int32 // only nodes with this number of devices; 0: any
}

type outlook struct {
	outlookKey
	lens   lens         // selects nodes and counts units; has no sums
	gains  [][]gain     // per shelf, ascending; the lists are never changed
	sizes  []uint64     // per shelf: the numbers of devices of its nodes, one bit per bucket
	stamps []uint64     // of the counted rows
	others []shelfGains // the count of each row before the current one, because reservations come and go
	used   uint64

	guesses [guessLimit]guess
	next    int
}

// shelfGains holds the units of the nodes of one shelf over time, and the sizes of the nodes.
type shelfGains struct {
	stamp uint64 // of the row
	gains []gain
	sizes uint64
}

// guess holds the last answer, which is usually still correct or nearly correct.
type guess struct {
	tier  int
	units int64
	at    int64
}

const guessLimit = 8

// outlookBudget limits the memory of all outlooks of one basis. outlookCost is the memory per node.
const (
	outlookBudget = 64 << 20
	outlookCost   = 32
)

// outlook returns the outlook of a search for a rate. It creates the outlook if necessary, and updates it.
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

// dropOutlook removes the least recently used outlook.
func (c *forecast) dropOutlook() { forgetOldest(c.outlooks, func(o *outlook) uint64 { return o.used }) }

// refresh counts all rows that have changed.
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

// renew updates one row. It does not change the old lists, because findings share them.
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

// count counts one row. The result is valid until the next call.
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

// unitsOf returns the units of one node.
func (o *outlook) unitsOf(s *roomStep) int64 {
	units, size, _ := o.lens.grade(&s.room, s.parts)
	if size == 0 {
		return 0
	}
	return units
}

// after returns the index of the first gain of a shelf after a time.
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

// heldBy returns the number of units that a shelf holds at a time.
func heldBy(gains []gain, at int64) int64 {
	if n := after(gains, at); n > 0 {
		return gains[n-1].units
	}
	return 0
}
