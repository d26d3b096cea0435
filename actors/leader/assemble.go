// Package leader assembles the actors of a leading scheduler. There is one Scheduler, Journal and Mirror, and a Rack
// for each rack. Each live job has a Job, each live array an Array, and each attempt before its barrier a Coordinator.
// Each actor is in its own package, which imports no other actor's package. These actors decide everything about jobs
// and nodes. They trust a node's reports about itself, and they communicate with nodes only by messages. They import no
// code of the node side.
package leader

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/array"
	"github.com/yi-json/synapse/actors/leader/coordinator"
	"github.com/yi-json/synapse/actors/leader/job"
	"github.com/yi-json/synapse/actors/leader/journal"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/leader/rack"
	"github.com/yi-json/synapse/actors/leader/scheduler"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
)

// This file owns the construction of a leader's actors, and the ports that they need.

// Ports holds the interfaces and settings that a leading process gives to its actors.
type Ports = protocol.Ports

// OwnerLimits limits the waiting jobs and the resources of one owner.
type OwnerLimits = protocol.OwnerLimits

// DefaultOwnerLimits returns limits far above the needs of a person, and far below the capacity of a scheduler.
func DefaultOwnerLimits() OwnerLimits { return protocol.DefaultOwnerLimits() }

// Assemble builds the actor tree of a leading process and returns its root.
func Assemble(p Ports) *actor.PID {
	p.Since = p.Clock.Now()
	return actors.Root(&p.Ports, func(ctx actor.Context) {
		// The Journal and the Mirror come first, because the Scheduler sends messages to them when it starts.
		actors.Spawn(ctx, &p.Ports, actors.KindJournal, "journal", func() actor.Actor { return journal.New(&p) })
		actors.Spawn(ctx, &p.Ports, actors.KindMirror, "mirror", func() actor.Actor {
			return mirror.New(&p.Ports, p.Epoch, p.Levels)
		})
		actors.Spawn(ctx, &p.Ports, actors.KindScheduler, actors.SchedulerName, func() actor.Actor {
			return scheduler.New(&p, makers)
		})
	})
}

// makers holds the constructors of the actors that the Scheduler creates.
var makers = scheduler.Makers{
	Rack: rack.New, Array: array.New,
	Job: func(p *protocol.Ports, peers protocol.JobPeers, life uint64, rec *messages.JobRecord,
		attempts []*messages.AttemptRecord) actor.Actor {
		return job.New(p, peers, life, rec, attempts, coordinator.New)
	},
}

// Tables returns the state machines of a leader's actors, for the documentation and the tests.
func Tables() []actors.Table[string] {
	return []actors.Table[string]{
		scheduler.Table.Words(), job.Table.Words(), coordinator.Table.Words(), rack.Table.Words(), journal.Table.Words(),
		array.Table.Words(),
	}
}
