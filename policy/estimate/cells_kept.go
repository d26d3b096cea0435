package estimate

// This file limits the number of cells, evicts cells, and converts them to and from records. No result depends on the
// order of a map, because the next leader or a repeated simulation must evict the same cells.

import (
	"cmp"
	"slices"
	"strings"

	"github.com/yi-json/synapse/policy/heap"
)

// MaxCells is the maximum number of cells with learned run times. Without it, names and limits that never occur again
// would fill the memory. Cells of waiting and running jobs do not count. They are removed with their jobs.
const MaxCells = 20_000

// Cells holds all that was learned of how long jobs run.
type Cells struct {
	cells   map[CellKey]*cell // cells with data, with running jobs, or held by lines
	learned heap.Heap[*cell]  // cells with data, least worth first
	sorted  []*cell           // the same in the order of their keys, to avoid sorting them for each list
	floor   int64             // worth of the last evicted cell
	most    int
}

// NewCells returns cells without data.
func NewCells() *Cells {
	return &Cells{
		cells: map[CellKey]*cell{}, most: MaxCells,
		learned: heap.Heap[*cell]{
			Before: func(a, b *cell) bool { return cmp.Or(cmp.Compare(a.worth, b.worth), a.key.compare(&b.key)) < 0 },
			Moved:  func(x *cell, at int) { x.at = at },
		},
	}
}

// Len returns the number of cells with learned run times.
func (c *Cells) Len() int { return len(c.learned.Items) }

// reach returns a cell, and creates an empty one if necessary.
func (c *Cells) reach(key CellKey) *cell {
	x := c.cells[key]
	if x == nil {
		x = &cell{key: key, at: -1}
		c.cells[key] = x
	}
	return x
}

// drop removes a cell without data that is not in use.
func (c *Cells) drop(x *cell) {
	if x.at < 0 && x.running == 0 && x.lines == 0 {
		delete(c.cells, x.key)
	}
}

// learn adds a run time to a cell. If there are too many cells, it evicts the least used one.
//
// The worth of a cell is its decayed number of jobs plus the worth of the last evicted cell. Adding the latter ages
// cells: a cell that was used much but is no longer used is evicted in its turn. If only the latest use counted, a
// thousand jobs with different names would evict all other cells.
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

// keep adds a cell to those with data.
func (c *Cells) keep(x *cell) {
	c.learned.Push(x)
	at, _ := c.placeOf(x)
	c.sorted = slices.Insert(c.sorted, at, x)
}

// letGo removes the data of the least used cell. Its running attempts remain.
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

// Cell holds the data of a cell in the form for a record. It omits running attempts, because their start
// times are measured by the clock of one leader. The next leader adds each of them again.
type Cell struct {
	CellKey
	Count int64 // number of jobs, with older ones decayed, in units of 2^-20
	Sum   int64 // sum of their run times, decayed in the same way, in tenths of a millisecond
	Ended int64 // number of jobs without decay, at most 50
	Used  int64 // use in excess of the last evicted cell, in units of 2^-20
}

// compare orders keys.
func (k *CellKey) compare(o *CellKey) int {
	return cmp.Or(cmp.Compare(k.Level, o.Level), strings.Compare(k.Owner, o.Owner), strings.Compare(k.Group, o.Group),
		cmp.Compare(k.Size, o.Size), cmp.Compare(k.Limit, o.Limit))
}

// Known returns the data of all cells, in the order of their keys.
func (c *Cells) Known() []Cell {
	known := make([]Cell, len(c.sorted))
	for i, x := range c.sorted {
		known[i] = Cell{CellKey: x.key, Count: x.count, Sum: x.sum, Ended: x.ended, Used: x.worth - c.floor}
	}
	return known
}

// Recall restores the cells of an earlier leader, before anything else is learned. The order does not matter. If there
// are too many cells, the most used ones remain. A repeated cell counts once.
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
