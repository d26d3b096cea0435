package sim

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
)

// This file simulates time as a process sees it: a monotonic clock that runs up to one percent fast or slow, a wall
// clock that jumps, and timers.

// WallBeganMs is the wall time at which every run begins.
const WallBeganMs = 1_767_225_600_000

// clock belongs to a node and lasts for one boot.
type clock struct {
	began  instant       // virtual time at which the clock read base
	base   time.Duration // reading of the clock at began
	ppm    int64         // how much faster than virtual time the clock runs, in millionths
	wallBy *time.Duration
	exact  bool // timers fire exactly when they are due, to the nanosecond
}

func (c clock) read(now instant) actors.Instant {
	elapsed := int64(now.since(c.began))
	return actors.Instant(int64(c.base) + elapsed + elapsed/1_000_000*c.ppm + elapsed%1_000_000*c.ppm/1_000_000)
}

func (c clock) wall(now instant) int64 {
	return WallBeganMs + (now.duration() + *c.wallBy).Milliseconds()
}

// lasts returns the virtual time that passes while the clock counts d. The result is rounded up, because no timer may
// fire before its clock says that it is due.
func (c clock) lasts(d time.Duration) time.Duration {
	if c.exact {
		return d
	}
	whole := int64(d)
	faster := whole/(1_000_000+c.ppm)*c.ppm + whole%(1_000_000+c.ppm)*c.ppm/(1_000_000+c.ppm)
	return time.Duration(whole - faster + 2)
}

// timer is a message that a process requested for later. It is lost with the process.
type timer struct {
	proc    *process
	to      *actor.PID
	message any
}

func (t *timer) happen() {
	if !t.proc.dead {
		t.proc.timers--
		t.proc.tell(t.to, t.message)
	}
}

// After sends a message to an actor after a delay.
func (p *process) After(d time.Duration, to *actor.PID, message any) {
	p.timers++
	p.w.engine.at(p.w.engine.now.plus(p.clock.lasts(max(d, 0))), &timer{p, to, message})
}
