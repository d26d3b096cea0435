package topology

// This file has the lenses. A lens is an index of the topology tree for one rate. It knows the exact number of units
// that fit in every domain, by CPU, memory, device type and labels of every node. It counts only the shelves that
// changed after it was last read.
//
// Upper bounds per domain, which a search verifies, would be cheaper for a new rate and more expensive for all others.
// A plan asks for the same few rates again and again. The memory of all lenses is limited. A rate that does not fit
// even without its CPU and memory is refused by the lens of that simpler rate (search.look in place.go).

import (
	"math/bits"
	"slices"
)

// lensKey holds the values that two demands must share to use the same lens.
type lensKey struct {
	rate
	gpuType  string
	selector string
	only     string  // named nodes
	exclude  string  // excluded nodes
	speaks   int32   // vocabulary that agents must understand
	account  Account // account under which nodes must run it
	idle     bool    // assume idle nodes
	all      bool    // include nodes out of service
	lent     string  // reserved capacity that counts as free
}

// cell holds a lens's counts for one shelf. The masks have one bit per bucket (see bucketOf), and show the numbers of
// units that the shelf's nodes hold. whole is for completely free nodes, which a small gang would break. loose is for
// all others.
type cell struct {
	units        int64
	free, total  int64 // in the rate's currency
	loose, whole uint64
}

// tierCount holds a lens's counts for one level: the sums per domain, and the domains in the order of their units.
type tierCount struct {
	units, free, total []int64
	order              []uint64 // rankKeys, ascending; valid if ranked
	ranked             bool
	scans              int
}

// lens is an index of the tree for one rate.
type lens struct {
	lensKey
	selects []Label
	named   map[NodeID]bool // nil: all
	out     map[NodeID]bool
	lends   *lentSet
	special bool // the rooms on the shelves must be adjusted before counting

	then    *forecast // of the horizon; nil: the tree as it is now
	instant int64

	match   []bool // per kind
	kinds   uint64
	version uint64 // of the layout
	pos     uint64 // in the change log
	used    uint64 // clock of lens uses at the last read
	counted bool   // false until everything was counted once

	shelves []*shelf // of the counted layout
	cells   []cell
	prints  []uint64 // of the shelves when they were counted
	tiers   []tierCount
	loose   [64]int32 // number of shelves per bucket
	whole   [64]int32

	units []uint8 // number of units by number of free devices
	needs []Resources
}

const (
	exactBuckets = 48 // numbers below this have separate buckets
	tableDevices = 32 // nodes with at most this many devices are counted by table
)

// bucketOf maps a number of units to a bit of a mask. It is monotone: exact below exactBuckets, by powers of two above.
func bucketOf(h int64) int {
	if h < exactBuckets {
		return int(h)
	}
	return min(63, exactBuckets-6+bits.Len64(uint64(h)))
}

// prepare computes the tables of the lens.
func (l *lens) prepare() {
	l.units, l.needs = l.units[:0], l.needs[:0]
	if l.gpus == 0 {
		return
	}
	for n := int64(0); n <= tableDevices; n++ {
		l.units = append(l.units, uint8(l.capped(n/l.gpus)))
		l.needs = append(l.needs, l.need(n))
	}
}

// refresh updates the lens to the current state of the tree.
func (l *lens) refresh(f *Tree) {
	f.arrange()
	all := !l.counted || l.kinds != f.kinds.version
	l.learnKinds(&f.kinds)
	switch {
	case all:
		l.countAll(f)
	case l.version != f.plan.version:
		l.carry(f)
		fallthrough
	default:
		f.changes.since(l.pos, l.shelves, l.reads(), func(i int) { l.recount(f, i) })
	}
	l.pos = f.changes.end()
	f.changes.read = max(f.changes.read, l.pos)
}

// reads returns the aspect whose changes this lens must follow. Reservations do not matter to a lens that is lent all
// of them, nor to one that assumes idle nodes.
func (l *lens) reads() aspect {
	if l.idle || l.lends != nil && l.lends.all {
		return whatFree
	}
	return whatLeft
}

// learnKinds adds new kinds.
func (l *lens) learnKinds(t *kindTable) {
	if l.kinds != t.version {
		l.match, l.kinds = l.match[:0], t.version
	}
	for i := len(l.match); i < len(t.all); i++ {
		l.match = append(l.match, t.all[i].matches(wanted{l.gpuType, l.speaks, l.selects, l.account}))
	}
}

// countAll counts every shelf.
func (l *lens) countAll(f *Tree) {
	l.shelves = f.plan.shelves
	l.cells = slices.Grow(l.cells[:0], len(l.shelves))[:len(l.shelves)]
	l.prints = slices.Grow(l.prints[:0], len(l.shelves))[:len(l.shelves)]
	for i, sh := range l.shelves {
		l.cells[i], l.prints[i] = l.count(sh), sh.prints[whatLeft]
	}
	l.sum(f)
}

// carry moves the counts to a new layout. Both layouts are sorted by name, so one pass finds the shared shelves. Only
// new shelves are counted.
func (l *lens) carry(f *Tree) {
	old, was, prints := l.cells, l.shelves, l.prints
	l.cells, l.shelves = make([]cell, len(f.plan.shelves)), f.plan.shelves
	l.prints = make([]uint64, len(l.shelves))
	j := 0
	for i, sh := range l.shelves {
		for j < len(was) && was[j].at < 0 {
			j++
		}
		if j < len(was) && was[j] == sh {
			l.cells[i], l.prints[i] = old[j], prints[j]
			j++
		} else {
			l.cells[i], l.prints[i] = l.count(sh), sh.prints[whatLeft]
		}
	}
	l.sum(f)
}

// sum computes all sums above the shelves from their cells.
func (l *lens) sum(f *Tree) {
	l.version, l.counted = f.plan.version, true
	clear(l.loose[:])
	clear(l.whole[:])
	l.tiers = slices.Grow(l.tiers[:0], len(f.plan.tiers))[:len(f.plan.tiers)]
	for t := range l.tiers {
		l.tiers[t].reset(len(f.plan.tiers[t].domains))
	}
	racks := &l.tiers[f.plan.racks()]
	for i := range l.cells {
		c := &l.cells[i]
		r := f.plan.rackOf[i]
		racks.units[r] += c.units
		racks.free[r] += c.free
		racks.total[r] += c.total
		tally(&l.loose, c.loose, 1)
		tally(&l.whole, c.whole, 1)
	}
	for t := f.plan.racks(); t > 0; t-- {
		below, above := &l.tiers[t], &l.tiers[t-1]
		for i, p := range f.plan.tiers[t].parent {
			above.units[p] += below.units[i]
			above.free[p] += below.free[i]
			above.total[p] += below.total[i]
		}
	}
}

func (t *tierCount) reset(n int) {
	for _, s := range []*[]int64{&t.units, &t.free, &t.total} {
		*s = slices.Grow((*s)[:0], n)[:n]
		clear(*s)
	}
	t.ranked, t.scans = false, 0
}

func tally(counts *[64]int32, mask uint64, by int32) {
	for ; mask != 0; mask &= mask - 1 {
		counts[bits.TrailingZeros64(mask)] += by
	}
}

// recount counts one shelf again and adds the difference to all levels above.
func (l *lens) recount(f *Tree, at int) {
	sh := l.shelves[at]
	if !l.special && l.prints[at] == sh.prints[whatLeft] {
		return
	}
	old, now := l.cells[at], l.count(sh)
	if l.prints[at] = sh.prints[whatLeft]; old == now {
		return
	}
	l.cells[at] = now
	tally(&l.loose, old.loose&^now.loose, -1)
	tally(&l.loose, now.loose&^old.loose, 1)
	tally(&l.whole, old.whole&^now.whole, -1)
	tally(&l.whole, now.whole&^old.whole, 1)
	i := int(f.plan.rackOf[at])
	for t := f.plan.racks(); t >= 0; t-- {
		l.tiers[t].add(i, now.units-old.units, now.free-old.free, now.total-old.total)
		i = int(f.plan.tiers[t].parent[i])
	}
}

func (t *tierCount) add(i int, units, free, total int64) {
	t.free[i] += free
	t.total[i] += total
	if units == 0 {
		return
	}
	was := t.units[i]
	t.units[i] += units
	if t.ranked {
		moveKey(t.order, rankKey(was, i), rankKey(was+units, i))
	}
}
