package host

import (
	cmap "github.com/orcaman/concurrent-map"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns the size and the log of the actor system.

// init reduces the size of Proto.Actor's registry. By default it is 1,024 maps of 32 shards each, 2.9 MB for an agent
// with a dozen actors. One shard per map is enough: an actor is looked up once per message, and the lock is held for
// one read.
func init() { cmap.SHARD_COUNT = 1 }

// NewSystem returns an actor system. The function lost is called for each message whose actor does not exist.
func NewSystem(lost func()) *actor.ActorSystem {
	system := actor.NewActorSystem(actor.WithLoggerFactory(silence))
	system.EventStream.Subscribe(func(event any) {
		if _, ok := event.(*actor.DeadLetterEvent); ok {
			lost()
		}
	})
	return system
}
