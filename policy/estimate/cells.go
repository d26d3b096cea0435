// Package estimate says how long a job will run, learned from those that ran before it, and how large it is. It is
// pure: who knows the time passes it in, in nanoseconds.
package estimate

// This file owns the estimate of how long a job will run, learned from those that
// ran before it: which cells a job counts in, from coarse to fine, and what they
// say together. What one cell knows is in cell.go, how many there may be in
// cells_kept.go.
//
// The estimate orders work and plans promises. It must never end a job: it is a mean,
// and many a job runs for longer.

import (
	"slices"
	"strings"
)

// Times are in nanoseconds, instants on one monotonic clock of the caller's.
const (
	second = 1_000_000_000
	// Unlearned is what a job is expected to run where nothing is known at all.
	Unlearned = 3600 * second

	// leastLeft is the least that a job is expected to go on where it has already run
	// for as long as was expected of it.
	leastLeft = 30 * second
	// longest is more than any job runs, and than any clock of a process shows.
	longest = 10 * 366 * 24 * 3600 * second
)

// Traits describe a job as far as that tells how long it will run. They stay what they were when
// its attempt began, even if somebody changes the job: Ended leaves the cells that Began entered.
type Traits struct {
	Pool  string // of the machines that it wants: see Pools
	Queue string
	Owner string // "" where nobody is named
	Name  string // "" where it has none; its digits do not matter
	Size  int64  // in milli-GPUs: see Pool.SizeOf
	Limit int64  // 0: none
	Burst uint64 // names the burst that it came with; 0: none
}

// Level is a kind of cells, the coarser the lower. The numbers are on disk.
type Level uint8

// The levels. Where no owner is named, OfOwner and OfOwnerSize give their turn to OfQueueSize.
const (
	OfPool Level = iota + 1
	OfQueueClass
	OfOwner
	OfOwnerSize
	OfQueueSize
	OfOwnerName
	OfOwnerQueueSizeLimit
	ofBurst // never on disk: it goes with the burst
)

// memory returns of how many jobs a cell of a level keeps the mean: each further one takes
// this part of the weight of all earlier ones. 0: all count alike.
func (l Level) memory() int64 {
	switch l {
	case OfPool, OfQueueClass:
		return 1000
	case ofBurst:
		return 0
	}
	return 20
}

// CellKey names a cell.
type CellKey struct {
	Level Level
	Owner string
	Group string // the pool, the queue or the name without its digits
	Size  int64  // the class, the size, or the burst
	Limit int64
}

// path names where jobs of the same traits count: the keys of their cells from coarse to fine, those without a level
// left out.
type path [7]CellKey

func pathOf(t *Traits) path {
	name := WithoutDigits(t.Name)
	p := path{
		{Level: OfPool, Group: t.Pool},
		{Level: OfQueueClass, Group: t.Queue, Size: int64(ClassOf(t.Size))},
		{Level: OfOwner, Owner: t.Owner},
		{Level: OfOwnerSize, Owner: t.Owner, Size: t.Size},
		{Level: OfOwnerName, Owner: t.Owner, Group: name},
		{Level: OfOwnerQueueSizeLimit, Owner: t.Owner, Group: t.Queue, Size: t.Size, Limit: t.Limit},
		{Level: ofBurst, Size: int64(t.Burst)},
	}
	if t.Owner == "" {
		p[2], p[3] = CellKey{}, CellKey{Level: OfQueueSize, Group: t.Queue, Size: t.Size}
	}
	if name == "" {
		p[4] = CellKey{}
	}
	if t.Burst == 0 {
		p[6] = CellKey{}
	}
	return p
}

// WithoutDigits returns what the names of jobs of one kind have in common: train-7 and train-8 are both train-.
func WithoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// Began notes an attempt that passed its barrier at this moment.
func (c *Cells) Began(t Traits, at int64) {
	for _, key := range pathOf(&t) {
		if key.Level != 0 {
			c.reach(key).begin(at)
		}
	}
}

// Ended notes that an attempt which began is over. Its duration is learned if the job
// made it: it ended by itself, by its limit or by a cancel. One that was cut short by
// machines, preemption, a drain or a requeue says nothing of how long such jobs run,
// but that they run at least for so long; that counted while it ran.
func (c *Cells) Ended(t Traits, began, now int64, learned bool) {
	for _, key := range pathOf(&t) {
		if key.Level == 0 {
			continue
		}
		x := c.cells[key]
		if x == nil || x.running == 0 {
			panic("estimate: an attempt ended without a begin")
		}
		x.end(began)
		if learned {
			c.learn(x, now-began)
		}
		c.drop(x)
	}
}

// Learn adds an attempt that began and ended while nobody counted: under an earlier
// leader, after that one had last written down what it knew.
func (c *Cells) Learn(t Traits, ran int64) {
	for _, key := range pathOf(&t) {
		if key.Level != 0 && key.Level != ofBurst {
			c.learn(c.reach(key), ran)
		}
	}
}

// Estimate returns how long a job of these traits is expected to run: a second at least, and
// no longer than its limit.
func (c *Cells) Estimate(t Traits, now int64) int64 {
	l := Line{limit: t.Limit}
	for i, key := range pathOf(&t) {
		l.cells[i] = c.cells[key]
	}
	return l.Estimate(now)
}

// Line holds the cells of one kind of jobs, so that a pass asks for an estimate without
// looking any of them up. As long as it is held, so are they.
type Line struct {
	home  *Cells
	limit int64
	cells [len(path{})]*cell // nil: no such level, or nothing is known there
}

// Of finds the cells of jobs with these traits. The caller closes the line when none of
// them waits any more.
func (c *Cells) Of(t Traits) *Line {
	l := &Line{home: c, limit: t.Limit}
	for i, key := range pathOf(&t) {
		if key.Level != 0 {
			l.cells[i] = c.reach(key)
			l.cells[i].lines++
		}
	}
	return l
}

// Close lets go of the cells.
func (l *Line) Close() {
	for i, x := range l.cells {
		if x != nil {
			x.lines--
			l.home.drop(x)
			l.cells[i] = nil
		}
	}
}

// Estimate answers as Cells.Estimate for what the line was made of. It allocates nothing.
//
// Each cell draws its mean towards what the coarser ones say, as if that had been one
// job more: a fine cell with few jobs is noise, one with many knows better.
func (l *Line) Estimate(now int64) int64 {
	mean := ticksOf(Unlearned)
	for _, x := range l.cells {
		if x != nil {
			mean = x.shrink(mean, ticksOf(now))
		}
	}
	most := int64(longest)
	if l.limit > 0 {
		most = min(most, l.limit)
	}
	return min(max(min(mean, ticksOf(longest))*tick, second), most)
}

// Knows reports whether anything has been learned that says something of these jobs.
func (l *Line) Knows() bool {
	return slices.ContainsFunc(l.cells[:], func(x *cell) bool { return x != nil && x.count > 0 })
}

// Remaining returns how long an attempt is expected to go on, of which so much was expected
// when it started (0 as limit: it has none). One that has run for longer than that is
// taken to be past two thirds of its way: what is old goes on.
func Remaining(estimateAtStart, elapsed, limit int64) int64 {
	left := max(estimateAtStart-elapsed, elapsed/2, leastLeft)
	if limit > 0 {
		left = min(left, limit-elapsed)
	}
	return max(left, 0)
}
