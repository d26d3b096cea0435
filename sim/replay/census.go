package replay

import (
	"time"

	"github.com/yi-json/synapse/sim/record"
)

// This file measures a run: the free GPUs, the waiting jobs, and whether a waiting job fits on the free GPUs.

// census integrates over the time between two changes.
type census struct {
	ground  *ground
	waiting map[shape]int // number of waiting jobs by shape
	number  int           // number of waiting jobs
	at      time.Duration
	gangs   int // running gangs that are larger than one node
	near    int // of these, in the fewest possible racks
	course  *steps

	// blocked reports whether the gang at which a compared policy stops is no larger than the free GPUs, and does
	// not fit. If blocked is nil, any waiting gang counts.
	blocked func() bool

	withheld *withheld // nil: the planner gives no reasons

	idleFit float64 // GPU-seconds that were free while a waiting job fits on them
	stuck   float64 // GPU-seconds that were free while a job of at most this size did not fit
}

func newCensus(g *ground) *census {
	return &census{ground: g, waiting: map[shape]int{}, course: newSteps()}
}

// waits counts one more waiting job of a shape.
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

// moved changes the number of free GPUs of a node.
func (c *census) moved(now time.Duration, machine, gpus int) {
	c.pass(now)
	c.ground.move(machine, gpus)
}

// gang changes the number of running gangs that are larger than one node.
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
