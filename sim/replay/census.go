package replay

import (
	"time"

	"github.com/yi-json/synapse/sim/rival"
)

// This file owns what is counted while a run goes on: the free GPUs, who waits, and whether what is free would do.

// census integrates over the time that passes between two changes.
type census struct {
	room    *rival.Room
	waiting map[int]int // jobs, by their GPUs
	number  int         // of them
	at      time.Duration

	// blocked reports whether the gang that a comparison stops at is no larger than what is free, and has no place; nil: any
	// gang that waits counts.
	blocked func() bool

	idleFit float64 // GPU-seconds free while a waiting job has a place on them
	stuck   float64 // GPU-seconds free while one that is no larger has none
}

func newCensus(room *rival.Room) *census { return &census{room: room, waiting: map[int]int{}} }

// waits and starts move a job of so many GPUs.
func (c *census) waits(now time.Duration, gpus int) {
	c.pass(now)
	c.waiting[gpus]++
	c.number++
}

func (c *census) starts(now time.Duration, gpus int) {
	c.pass(now)
	c.waiting[gpus]--
	c.number--
	if c.waiting[gpus] == 0 {
		delete(c.waiting, gpus)
	}
}

// moved lets a machine have more or fewer GPUs free.
func (c *census) moved(now time.Duration, machine, gpus int) {
	c.pass(now)
	c.room.Set(machine, c.room.FreeOf(machine)+gpus)
}

// pass counts the time since the last change.
func (c *census) pass(now time.Duration) {
	d := (now - c.at).Seconds()
	c.at = now
	if d <= 0 || c.number == 0 {
		return
	}
	free, fits, stuck := c.room.Free(), false, false
	for gpus := range c.waiting { //order: any of them will do
		if c.room.Fits(gpus) {
			fits = true
		} else if gpus <= free {
			stuck = true
		}
	}
	if fits {
		c.idleFit += d * float64(free)
	}
	if c.blocked != nil {
		stuck = c.blocked()
	}
	if stuck {
		c.stuck += d * float64(free)
	}
}
