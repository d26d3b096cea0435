package host

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/clock"
)

// Clock implements actors.Clock with the machine's own clocks.
type Clock struct{ system *actor.ActorSystem }

// Clock is the clock of the process's actors.
func (h *Host) Clock() Clock { return Clock{h.system} }

// Now counts from this boot of the machine, time asleep included.
func (Clock) Now() actors.Instant { return actors.Instant(clock.BootNs()) }

// WallMs is Unix time in milliseconds.
func (Clock) WallMs() int64 { return time.Now().UnixMilli() }

// After wakes an actor with a message.
func (c Clock) After(d time.Duration, to *actor.PID, message any) {
	time.AfterFunc(d, func() { c.system.Root.Send(to, message) })
}
