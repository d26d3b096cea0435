package replay

import "time"

// This file owns what is counted while a run goes on: the free GPUs, which jobs wait, and whether what is free would
// do.

// census integrates over the time that passes between two changes.
type census struct {
	ground  *ground
	waiting map[shape]int // jobs
	number  int           // of them
	at      time.Duration

	// blocked reports whether the gang that a comparison stops at is no larger than what is free, and has no place;
	// nil: any gang that waits counts.
	blocked func() bool

	idleFit float64 // GPU-seconds free while a waiting job has a place on them
	stuck   float64 // GPU-seconds free while one that is no larger has none
}

func newCensus(g *ground) *census { return &census{ground: g, waiting: map[shape]int{}} }

// waits and starts move a job of a shape.
func (c *census) waits(now time.Duration, s shape) {
	c.pass(now)
	c.waiting[s]++
	c.number++
}

func (c *census) starts(now time.Duration, s shape) {
	c.pass(now)
	c.waiting[s]--
	c.number--
	if c.waiting[s] == 0 {
		delete(c.waiting, s)
	}
}

// moved lets a machine have more or fewer GPUs free.
func (c *census) moved(now time.Duration, machine, gpus int) {
	c.pass(now)
	c.ground.move(machine, gpus)
}

// pass counts the time since the last change.
func (c *census) pass(now time.Duration) {
	d := (now - c.at).Seconds()
	if d <= 0 {
		return
	}
	if c.at = now; c.number == 0 || c.ground.sum == 0 {
		return
	}
	free, fits, stuck := float64(c.ground.sum), false, false
	for s := range c.waiting { //order: any of them will do
		if c.ground.fits(s) {
			fits = true
		} else if s.gpus <= c.ground.sum {
			stuck = true
		}
	}
	if fits {
		c.idleFit += d * free
	}
	if c.blocked != nil {
		stuck = c.blocked()
	}
	if stuck {
		c.stuck += d * free
	}
}
