// Package worker holds the actors of one machine: the Node with the machine's ledger,
// and a Task for each member that runs there. It owns which tasks have the machine's resources, and the evidence that
// these are free again. It does not import the leader's code.
package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns how a machine's actors are built, and what its agent gives them.

// Ports are all that a machine's agent gives its actors.
type Ports struct {
	actors.Ports
	Node         topology.NodeID
	MachineID    string
	Incarnation  *messages.Incarnation
	Announcement *messages.Announcement
	Disk         actors.Disk
	Launcher     actors.Launcher
	// Users is as which accounts jobs run here, the same message until that changes; nil: nobody says. It must not wait.
	Users func() *messages.NodeUsers
}

// Assemble builds the actor tree of a machine's agent, and returns its root.
func Assemble(p Ports) *actor.PID {
	return actors.Root(&p.Ports, func(ctx actor.Context) {
		actors.Spawn(ctx, &p.Ports, actors.KindNode, actors.NodeName, func() actor.Actor { return newNode(&p) })
	})
}
