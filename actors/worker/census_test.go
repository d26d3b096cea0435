package worker

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// counting is the context of one CountAll message.
type counting struct {
	actor.Context
	answer any
}

func (*counting) Sender() *actor.PID   { return actor.NewPID("here", "reader") }
func (c *counting) Respond(answer any) { c.answer = answer }

// TestCensus checks that a node reports the holder of each device and the devices that are out of service.
func TestCensus(t *testing.T) {
	r := newNodeRig(t, 3)
	r.start()
	r.settle()
	count := func() *Census {
		c := &counting{}
		r.node.onCountAll(c)
		return c.answer.(*Census)
	}
	r.tell(&messages.Lead{Epoch: r.epoch, ClusterId: "c"}, "leader")
	if c := count(); !c.Ready || c.Member || len(c.GPUs) != 3 || len(c.Held) != 0 || c.Tasks != 0 {
		t.Errorf("alone: %+v", c)
	}
	r.tell(&messages.Welcome{Epoch: r.epoch, Text: "Welcome", Incarnation: r.incarnation()}, "leader")
	amount := &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: 2000}
	order := &messages.Order{
		Epoch: r.epoch, Token: messages.ToToken(topology.Token{Epoch: r.epoch, Counter: 1}), Job: "j1", Node: "a",
		Incarnation: r.incarnation(), Seq: 1,
	}
	r.order(&messages.Reserve{Order: order, TtlMs: 10_000, Members: []*messages.Member{{Amount: amount}}})
	c := count()
	if !c.Member || len(c.Held) != 2 || c.Held[0].Job != "j1" || c.Held[0].Milli != 1000 || c.Allocations[0].Count != 1 {
		t.Errorf("with a reservation: %+v", c)
	}
	r.tell(&messages.GpuFaulted{GpuId: "gpu-2"}, "launcher")
	if c := count(); len(c.Failed) != 1 || c.Failed[0] != "gpu-2" {
		t.Errorf("with a broken device: %+v", c)
	}
}
