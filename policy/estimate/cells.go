// Package estimate computes the expected run time of a job from finished jobs, and the size of a job. It is pure:
// callers pass the time in nanoseconds.
package estimate

// This file computes the expected run time of a job. It selects the cells of a job from coarse to fine, and combines
// them. One cell is in cell.go, and the limit on the number of cells in cells_kept.go.
//
// An estimate only orders jobs and plans reservations. It must never end a job, because it is a mean value and many
// jobs run longer.

import (
	"slices"
	"strings"
)

// Times are in nanoseconds. Points in time are on one monotonic clock of the caller.
const (
	second = 1_000_000_000
	// Unlearned is the expected run time if nothing is known.
	Unlearned = 3600 * second

	// leastLeft is the shortest remaining run time of a job that has already reached its expected run time.
	leastLeft = 30 * second
	// longest exceeds the run time of every job, and every reading of a process's clock.
	longest = 10 * 366 * 24 * 3600 * second
)

// Traits are the properties of a job that predict its run time. They do not change after the begin of an attempt, even
// if a user changes the job, because Ended must update the same cells as Began.
type Traits struct {
	Pool  string // pool of nodes that it can use: see Pools
	Queue string
	Owner string // "" if unknown
	Name  string // "" if it has none; digits are ignored
	Size  int64  // in milli-GPUs: see Pool.SizeOf
	Limit int64  // 0: none
	Burst uint64 // number of its burst; 0: none
}

// Level is the level of a cell. Lower numbers are coarser. The numbers are on disk.
type Level uint8

// The levels. For jobs without a known owner, OfQueueSize replaces OfOwner and OfOwnerSize.
const (
	OfPool Level = iota + 1
	OfQueueClass
	OfOwner
	OfOwnerSize
	OfQueueSize
	OfOwnerName
	OfOwnerQueueSizeLimit
	ofBurst // never on disk: removed with the burst
)

// memory returns the number of jobs in the moving mean of a cell at this level. Each new job takes this fraction of the
// earlier jobs' weight. 0 means that all jobs count equally.
func (l Level) memory() int64 {
	switch l {
	case OfPool, OfQueueClass:
		return 1000
	case ofBurst:
		return 0
	}
	return 20
}

// CellKey identifies a cell.
type CellKey struct {
	Level Level
	Owner string
	Group string // the pool, the queue, or the name without its digits
	Size  int64  // the class, the size, or the burst
	Limit int64
}

// path has the keys of the cells of one kind of jobs, from coarse to fine. Levels that do not apply are empty.
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

// WithoutDigits returns the common part of the names of similar jobs: "train-" for train-7 and train-8.
func WithoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// Began adds an attempt that passed its barrier at this time.
func (c *Cells) Began(t Traits, at int64) {
	for _, key := range pathOf(&t) {
		if key.Level != 0 {
			c.reach(key).begin(at)
		}
	}
}

// Ended removes an ended attempt. If learned is true, it adds the run time. It must be true if the job itself
// determined the run time: the job ended by itself, by its limit or by a cancel. It must be false after a node failure,
// preemption, drain or requeue. Such an attempt only shows a minimum run time, which counted while it ran.
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

// Learn adds a run time that was not measured by this leader: the attempt ended under an earlier leader, after that
// leader's last record.
func (c *Cells) Learn(t Traits, ran int64) {
	for _, key := range pathOf(&t) {
		if key.Level != 0 && key.Level != ofBurst {
			c.learn(c.reach(key), ran)
		}
	}
}

// Estimate returns the expected run time of a job: at least one second and at most its limit.
func (c *Cells) Estimate(t Traits, now int64) int64 {
	l := Line{limit: t.Limit}
	for i, key := range pathOf(&t) {
		l.cells[i] = c.cells[key]
	}
	return l.Estimate(now)
}

// Line holds the cells of one kind of jobs, so that a pass needs no look-ups. The cells remain while the line is open.
type Line struct {
	home  *Cells
	limit int64
	cells [len(path{})]*cell // nil: no such level, or no data
}

// Of returns the cells of jobs with these traits. The caller closes the line when none of these jobs waits any more.
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

// Close releases the cells.
func (l *Line) Close() {
	for i, x := range l.cells {
		if x != nil {
			x.lines--
			l.home.drop(x)
			l.cells[i] = nil
		}
	}
}

// Estimate returns the same as Cells.Estimate for the traits of the line. It allocates nothing.
//
// Each cell draws its mean towards the estimate of the coarser cells, which counts like one more job. The data of a
// fine cell with few jobs is noise, and that of a cell with many jobs is reliable.
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

// Knows reports whether any finished job contributes to the estimate.
func (l *Line) Knows() bool {
	return slices.ContainsFunc(l.cells[:], func(x *cell) bool { return x != nil && x.count > 0 })
}

// Remaining returns the expected remaining run time of an attempt. estimateAtStart is its estimate when it started, and
// limit is 0 if it has none. An attempt that has exceeded its estimate is assumed to have completed two thirds: older
// attempts run longer.
func Remaining(estimateAtStart, elapsed, limit int64) int64 {
	left := max(estimateAtStart-elapsed, elapsed/2, leastLeft)
	if limit > 0 {
		left = min(left, limit-elapsed)
	}
	return max(left, 0)
}
