// Package leader puts the actors of a scheduler that leads together: the Scheduler, a Job for each job that is not
// over,
// an Array for each of many elements, a Coordinator for each attempt on its way to the barrier, the Racks that hear the
// machines, and the Journal. Each is a package of its own and imports no other. They own every decision about jobs and
// machines; of a machine they believe what it says, and tell it nothing but messages. They know no code of its side.
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

// This file owns how a leader's actors come to be, and what the process gives them.

// Ports are all that a leading process gives its actors.
type Ports = protocol.Ports

// OwnerLimits limit what one owner may have in all.
type OwnerLimits = protocol.OwnerLimits

// DefaultOwnerLimits are far above what a person needs, and far below what a scheduler can hold.
func DefaultOwnerLimits() OwnerLimits { return protocol.DefaultOwnerLimits() }

// Assemble builds the actor tree of a process that leads, and returns its root.
func Assemble(p Ports) *actor.PID {
	p.Since = p.Clock.Now()
	return actors.Root(&p.Ports, func(ctx actor.Context) {
		// The Journal and the Mirror first: the Scheduler speaks to them when it starts.
		actors.Spawn(ctx, &p.Ports, actors.KindJournal, "journal", func() actor.Actor { return journal.New(&p) })
		actors.Spawn(ctx, &p.Ports, actors.KindMirror, "mirror", func() actor.Actor {
			return mirror.New(&p.Ports, p.Epoch, p.Levels)
		})
		actors.Spawn(ctx, &p.Ports, actors.KindScheduler, actors.SchedulerName, func() actor.Actor {
			return scheduler.New(&p, makers)
		})
	})
}

// makers is where each actor learns how those are made that it spawns.
var makers = scheduler.Makers{
	Rack: rack.New, Array: array.New,
	Job: func(p *protocol.Ports, peers protocol.JobPeers, life uint64, rec *messages.JobRecord,
		attempts []*messages.AttemptRecord) actor.Actor {
		return job.New(p, peers, life, rec, attempts, coordinator.New)
	},
}

// Tables are the state machines of a leader's actors, for the docs and the tests.
func Tables() []actors.Table[string] {
	return []actors.Table[string]{
		scheduler.Table.Words(), job.Table.Words(), coordinator.Table.Words(), rack.Table.Words(), journal.Table.Words(),
		array.Table.Words(),
	}
}
