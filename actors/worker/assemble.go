// Package worker holds the actors of one node: the Node actor with the node's ledger, and one Task actor for each task
// that runs there. It decides which tasks hold the node's resources, and it gathers the evidence that resources are
// free again. It does not import the leader's code.
package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the construction of the actors of a node agent, and the ports that they need.

// Ports holds the interfaces and settings that a node agent gives to its actors.
type Ports struct {
	actors.Ports
	Node         topology.NodeID
	MachineID    string
	Incarnation  *messages.Incarnation
	Announcement *messages.Announcement
	Disk         actors.Disk
	Launcher     actors.Launcher
	// Users returns the OS accounts under which jobs run on this node. It returns the same message until the accounts
	// change. It must not block. If Users is nil, the node reports no accounts.
	Users func() *messages.NodeUsers
}

// Assemble builds the actor tree of a node agent and returns its root.
func Assemble(p Ports) *actor.PID {
	return actors.Root(&p.Ports, func(ctx actor.Context) {
		actors.Spawn(ctx, &p.Ports, actors.KindNode, actors.NodeName, func() actor.Actor { return newNode(&p) })
	})
}
