package host

import (
	cmap "github.com/orcaman/concurrent-map"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns the actor system's size and its silence.

// init makes the library's registry small: it is 1,024 maps of 32 shards each, 2.9 MB for an agent with a dozen actors.
// One shard in each spreads the locks well enough: an actor is looked up once for each message, and the lock is held
// for one read of a map.
func init() { cmap.SHARD_COUNT = 1 }

// NewSystem makes an actor system; lost is called for each message whose actor is not there.
func NewSystem(lost func()) *actor.ActorSystem {
	system := actor.NewActorSystem(actor.WithLoggerFactory(silence))
	system.EventStream.Subscribe(func(event any) {
		if _, ok := event.(*actor.DeadLetterEvent); ok {
			lost()
		}
	})
	return system
}
