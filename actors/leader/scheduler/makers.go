package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns who makes the actors that a Scheduler spawns.

// Makers make the actors that a Scheduler spawns: no actor's package imports that of another.
type Makers struct {
	Rack  func(p *protocol.Ports, name string, scheduler *actor.PID) actor.Actor
	Array func(p *protocol.Ports, peers protocol.JobPeers, life uint64, rec *messages.JobRecord) actor.Actor
	Job   func(p *protocol.Ports, peers protocol.JobPeers, life uint64, rec *messages.JobRecord,
		attempts []*messages.AttemptRecord) actor.Actor
}
