package host

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/clock"
)

// Clock implements actors.Clock with the clocks of the host.
type Clock struct{ system *actor.ActorSystem }

// Clock returns the clock of the process's actors.
func (h *Host) Clock() Clock { return Clock{h.system} }

// Now counts from the boot of the host, including time in suspension.
func (Clock) Now() actors.Instant { return actors.Instant(clock.BootNs()) }

// WallMs returns Unix time in milliseconds.
func (Clock) WallMs() int64 { return time.Now().UnixMilli() }

// After sends an actor a message after a delay.
func (c Clock) After(d time.Duration, to *actor.PID, message any) {
	time.AfterFunc(d, func() { c.system.Root.Send(to, message) })
}
