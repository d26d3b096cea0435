package estimate

// This file owns how many cells are kept, which of them go, and how they are written
// down and read again. No order here is a map's: a next leader, or the same one simulated
// again, must let the same ones go.

import (
	"cmp"
	"slices"
	"strings"

	"github.com/yi-json/synapse/policy/heap"
)

// MaxCells is how many cells are kept for what they learned. Names and limits that never
// come back would fill the memory else. Those of waiting and running jobs are kept beside, and go with them.
const MaxCells = 20_000

// Cells holds all that was learned of how long jobs run.
type Cells struct {
	cells   map[CellKey]*cell // those that know something, that jobs run in, or that lines hold
	learned heap.Heap[*cell]  // those that know something, the least worth first
	sorted  []*cell           // the same in the order of the keys, or each list of them would be sorted again
	floor   int64             // what the last one that went was worth
	most    int
}

// NewCells makes cells that know nothing.
func NewCells() *Cells {
	return &Cells{
		cells: map[CellKey]*cell{}, most: MaxCells,
		learned: heap.Heap[*cell]{
			Before: func(a, b *cell) bool { return cmp.Or(cmp.Compare(a.worth, b.worth), a.key.compare(&b.key)) < 0 },
			Moved:  func(x *cell, at int) { x.at = at },
		},
	}
}

// Len counts the cells that are kept for what they learned.
func (c *Cells) Len() int { return len(c.learned.Items) }

// reach finds a cell or makes an empty one.
func (c *Cells) reach(key CellKey) *cell {
	x := c.cells[key]
	if x == nil {
		x = &cell{key: key, at: -1}
		c.cells[key] = x
	}
	return x
}

// drop forgets a cell that says nothing and that nobody holds.
func (c *Cells) drop(x *cell) {
	if x.at < 0 && x.running == 0 && x.lines == 0 {
		delete(c.cells, x.key)
	}
}

// learn adds a duration to a cell, and lets the least used one go if there are too many.
//
// Used is by how many jobs were learned of, as far as they count still, on top of what
// the last one was worth that went. By the latter a cell that was used much and is used
// no more goes in its turn. By the latest use alone a thousand jobs with names of their
// own would drive out what is known of everybody else's.
func (c *Cells) learn(x *cell, ran int64) {
	if x.key.Level == ofBurst {
		x.learn(ran)
		return
	}
	if x.at < 0 && len(c.learned.Items) >= c.most {
		c.letGo()
	}
	x.learn(ran)
	x.worth = c.floor + x.count
	if x.at < 0 {
		c.keep(x)
		return
	}
	c.learned.Down(x.at)
	c.learned.Up(x.at)
}

// keep enters a cell among those that know something.
func (c *Cells) keep(x *cell) {
	c.learned.Push(x)
	at, _ := c.placeOf(x)
	c.sorted = slices.Insert(c.sorted, at, x)
}

// letGo forgets what the least used cell learned. What runs in it runs on.
func (c *Cells) letGo() {
	x := c.learned.Items[0]
	c.learned.Remove(0)
	at, _ := c.placeOf(x)
	c.sorted = slices.Delete(c.sorted, at, at+1)
	c.floor = x.worth
	x.count, x.sum, x.ended, x.worth = 0, 0, 0, 0
	c.drop(x)
}

func (c *Cells) placeOf(x *cell) (int, bool) {
	return slices.BinarySearchFunc(c.sorted, x, func(a, b *cell) int { return a.key.compare(&b.key) })
}

// Cell holds what a cell learned, as it is written down. What runs is not: its starts are on
// the clock of one leader, and the next one is told of each.
type Cell struct {
	CellKey
	Count int64 // jobs, the older ones decayed, in parts of 2^20
	Sum   int64 // of their durations, decayed alike, in tenths of a millisecond
	Ended int64 // jobs, none decayed, 50 at most
	Used  int64 // beyond the last cell that went, in parts of 2^20
}

// compare orders keys.
func (k *CellKey) compare(o *CellKey) int {
	return cmp.Or(cmp.Compare(k.Level, o.Level), strings.Compare(k.Owner, o.Owner), strings.Compare(k.Group, o.Group),
		cmp.Compare(k.Size, o.Size), cmp.Compare(k.Limit, o.Limit))
}

// Known lists what was learned, in the order of the keys.
func (c *Cells) Known() []Cell {
	known := make([]Cell, len(c.sorted))
	for i, x := range c.sorted {
		known[i] = Cell{CellKey: x.key, Count: x.count, Sum: x.sum, Ended: x.ended, Used: x.worth - c.floor}
	}
	return known
}

// Recall takes over what an earlier leader had learned, before anything else is: in any
// order, and of too many those that were used most. A cell that is named twice counts
// once.
func (c *Cells) Recall(known []Cell) {
	for i := range known {
		k := &known[i]
		x := c.reach(k.CellKey)
		if x.at >= 0 || k.Count <= 0 {
			c.drop(x)
			continue
		}
		x.count, x.sum, x.ended, x.worth = k.Count, k.Sum, k.Ended, k.Used
		c.keep(x)
	}
	for len(c.learned.Items) > c.most {
		c.letGo()
	}
}
