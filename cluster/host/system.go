package host

import (
	cmap "github.com/orcaman/concurrent-map"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns the actor system's size and its silence.

// The library's registry is 1,024 maps of 32 shards each: 2.9 MB for an agent
// with a dozen actors, and no two of them near each other, so that every task's
// birth waited for memory. One shard in each of 64 spreads the locks well enough:
// an actor is looked up once for each message, and the lock is held for one map read.
func init() { cmap.SHARD_COUNT = 1 }

const buckets = 64

// NewSystem makes an actor system; lost is called for what was sent to nobody.
func NewSystem(lost func()) *actor.ActorSystem {
	system := actor.NewActorSystem(actor.WithLoggerFactory(silence))
	shrink(system.ProcessRegistry)
	system.EventStream.Subscribe(func(event any) {
		if _, is := event.(*actor.DeadLetterEvent); is {
			lost()
		}
	})
	return system
}

// shrink gives the registry fewer maps. What the library has entered keeps its name.
func shrink(registry *actor.ProcessRegistryValue) {
	few := &actor.SliceMap{LocalPIDs: make([]cmap.ConcurrentMap, buckets)}
	for i := range few.LocalPIDs {
		few.LocalPIDs[i] = cmap.New()
	}
	for _, bucket := range registry.LocalPIDs.LocalPIDs {
		for name, process := range bucket.Items() {
			few.GetBucket(name).Set(name, process)
		}
	}
	registry.LocalPIDs = few
}
