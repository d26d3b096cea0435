// Package leadertest provides the tests of a leader's actors with a context that records an actor's messages, and with
// ports without effect.
package leadertest

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// Clock is a clock that the test sets. It runs no timers.
type Clock struct{ At actors.Instant }

func (c *Clock) Now() actors.Instant { return c.At }

func (c *Clock) WallMs() int64 { return int64(c.At) / int64(time.Millisecond) }

func (c *Clock) After(time.Duration, *actor.PID, any) {}

// Context is the context of one message to a leader's actor. It records the messages that the actor sends.
type Context struct {
	actor.Context
	Hears any
	Said  *[]Letter
}

type Letter struct {
	To      string
	Message any
}

func (c *Context) Message() any { return c.Hears }

func (c *Context) Self() *actor.PID { return actor.NewPID("here", "self") }

func (c *Context) Sender() *actor.PID { return actor.NewPID("here", "client") }

func (c *Context) Children() []*actor.PID { return nil }

func (c *Context) Send(to *actor.PID, message any) {
	*c.Said = append(*c.Said, Letter{to.Id, message})
}

func (c *Context) Request(to *actor.PID, m any) { c.Send(to, m) }

func (c *Context) Respond(message any) { c.Send(c.Sender(), message) }

func (c *Context) Forward(to *actor.PID) { c.Send(to, c.Hears) }

func (c *Context) Stop(*actor.PID) {}

func (c *Context) SpawnNamed(_ *actor.Props, name string) (*actor.PID, error) {
	return actor.NewPID("here", name), nil
}

// Host creates no actors and ignores all reports.
type Host struct{ actors.NoLog }

// Props returns the Props of an actor that never receives a message.
func (Host) Props(_ actors.Kind, make actor.Producer) *actor.Props {
	return actor.PropsFromProducer(make, actor.WithMailbox(noMailbox))
}

func noMailbox() actor.Mailbox { return nil }

func (Host) Panicked(*actor.PID, any, bool) {}

func (Host) Deposed(uint64) {}

func (Host) Moved(actors.Kind, string, string, string) {}

func (Host) Count(string, int64) {}

func (Host) Took(string, time.Duration) {}

func (Host) Now() actors.Instant { return 0 }

func (Host) WallMs() int64 { return 12 * 3600 * 1000 }

func (Host) After(time.Duration, *actor.PID, any) {}

func Ports() *protocol.Ports {
	return &protocol.Ports{
		Planner: policy.Default{},
		Ports:   actors.Ports{Constants: actors.DefaultConstants(), Clock: Host{}, Host: Host{}, Log: Host{}},
		Calls:   Host{},
		Epoch:   1, NewJobID: func() topology.JobID { return "j" },
	}
}

var Peers = protocol.JobPeers{
	Scheduler: actor.NewPID("here", "scheduler"), Journal: actor.NewPID("here", "journal"),
	Mirror: actor.NewPID("here", "mirror"),
}

func OneGPU() *messages.JobSpec {
	return &messages.JobSpec{
		Name: "x", Image: "host", Command: []string{"true"}, Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
		Each: &messages.Resources{MilliGpu: 1000},
	}
}

// Nodes returns an address for every node.
type Nodes struct{ actors.Peers }

func (Nodes) Node(id topology.NodeID) *actor.PID { return actor.NewPID("here", string(id)) }

// Promise returns a start guarantee on one node.
func Promise() *messages.Promise {
	return &messages.Promise{
		Pool: "H100", Order: 3, LeftMs: 60_000, Slips: 1, Run: 1,
		Told: &messages.Told{ToldUnixMs: 7, ExpectedMs: 8, BoundMs: 9},
		Kept: []*messages.Kept{{Node: "n1", MachineId: "m1", Amount: &messages.Resources{MilliGpu: 1000}}},
	}
}
