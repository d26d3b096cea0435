package sim

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
)

// This file owns time as a process sees it: a monotonic clock that runs up to
// one percent fast or slow, a wall clock that jumps, and timers.

// WallBeganMs is the wall time at which every run begins.
const WallBeganMs = 1_767_225_600_000

// clock belongs to a machine and lives as long as its boot.
type clock struct {
	began  instant       // when it read base
	base   time.Duration // what it read then
	ppm    int64         // how much faster than virtual time, in millionths
	wallBy *time.Duration
	exact  bool // a timer fires when it is due, to the nanosecond
}

func (c clock) read(now instant) actors.Instant {
	elapsed := int64(now.since(c.began))
	return actors.Instant(int64(c.base) + elapsed + elapsed/1_000_000*c.ppm + elapsed%1_000_000*c.ppm/1_000_000)
}

func (c clock) wall(now instant) int64 {
	return WallBeganMs + (now.duration() + *c.wallBy).Milliseconds()
}

// lasts is how much virtual time passes while the clock counts d. It is rounded
// up: no timer may fire before its clock says that it is due.
func (c clock) lasts(d time.Duration) time.Duration {
	if c.exact {
		return d
	}
	whole := int64(d)
	faster := whole/(1_000_000+c.ppm)*c.ppm + whole%(1_000_000+c.ppm)*c.ppm/(1_000_000+c.ppm)
	return time.Duration(whole - faster + 2)
}

// timer is a message that a process asked to have later. It dies with the process.
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

// After wakes an actor.
func (p *process) After(d time.Duration, to *actor.PID, message any) {
	p.timers++
	p.w.engine.at(p.w.engine.now.plus(p.clock.lasts(max(d, 0))), &timer{p, to, message})
}
