package leader

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
)

// handClock is set by hand, and calls nobody.
type handClock struct{ at actors.Instant }

func (c *handClock) Now() actors.Instant                  { return c.at }
func (c *handClock) WallMs() int64                        { return int64(c.at) / 1e6 }
func (c *handClock) After(time.Duration, *actor.PID, any) {}
