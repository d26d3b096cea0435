package host

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/actors"
)

// Clock implements actors.Clock with the machine's own clocks.
type Clock struct{ system *actor.ActorSystem }

// Clock is the clock of the process's actors.
func (h *Host) Clock() Clock { return Clock{h.system} }

// Now counts from this boot of the machine, time asleep included: processes can compare their readings of one boot, as
// an agent and its supervisors do.
func (Clock) Now() actors.Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("the machine has no clock: " + err.Error()) // it cannot fail on a kernel of this century
	}
	return actors.Instant(t.Nano())
}

// WallMs is Unix time in milliseconds.
func (Clock) WallMs() int64 { return time.Now().UnixMilli() }

// After wakes an actor with a message.
func (c Clock) After(d time.Duration, to *actor.PID, message any) {
	time.AfterFunc(d, func() { c.system.Root.Send(to, message) })
}
