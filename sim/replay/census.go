package replay

import (
	"time"

	"github.com/yi-json/synapse/sim/record"
)

// This file owns what is counted while a run goes on: the free GPUs, which jobs wait, and whether what is free would
// do.

// census integrates over the time that passes between two changes.
type census struct {
	ground  *ground
	waiting map[shape]int // jobs
	number  int           // of them
	at      time.Duration
	gangs   int // that run and are larger than a machine
	near    int // of these, in as few racks as can be
	course  *steps

	// blocked reports whether the gang that a comparison stops at is no larger than what is free, and has no place;
	// nil: any gang that waits counts.
	blocked func() bool

	withheld *withheld // nil: the planner does not say what it withholds

	idleFit float64 // GPU-seconds free while a waiting job has a place on them
	stuck   float64 // GPU-seconds free while one that is no larger has none
}

func newCensus(g *ground) *census {
	return &census{ground: g, waiting: map[shape]int{}, course: newSteps()}
}

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

// gang lets one more gang run that is larger than a machine, or one fewer.
func (c *census) gang(now time.Duration, near bool, by int) {
	c.pass(now)
	if c.gangs += by; near {
		c.near += by
	}
}

// pass counts the time since the last change.
func (c *census) pass(now time.Duration) {
	d := (now - c.at).Seconds()
	if d <= 0 {
		return
	}
	if gpus := c.ground.cluster.Sum(); gpus > 0 {
		c.course.add(c.at, now, record.Step{Used: 1 - float64(c.ground.sum)/float64(gpus),
			Waiting: float64(c.number), Gangs: float64(c.gangs), Near: float64(c.near)})
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
		c.withheld.add(d * free)
	}
	if c.blocked != nil {
		stuck = c.blocked()
	}
	if stuck {
		c.stuck += d * free
	}
}
