package sim

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file simulates the health of a node's GPUs: which GPUs fail and recover, and what the agent is told, in the form
// of the real device watch.

// fault breaks a GPU until it is repaired.
func (l *launcher) fault(gpu string) {
	l.m.devicesAt = l.w.engine.now
	l.mended = slices.DeleteFunc(l.mended, func(id string) bool { return id == gpu })
	if !slices.Contains(l.faulted, gpu) {
		l.faulted = append(l.faulted, gpu)
	}
	if agent := l.m.proc; agent != nil {
		l.tellFaults(agent, actor.NewPID(l.m.address, actors.NodePath))
	}
}

func (l *launcher) tellFaults(agent *process, to *actor.PID) {
	for _, id := range l.faulted {
		agent.tell(to, &messages.GpuFaulted{GpuId: id, Detail: "fell off the bus"})
	}
}

// mend repairs a GPU.
func (l *launcher) mend(gpu string) {
	if i := slices.Index(l.faulted, gpu); i >= 0 {
		l.m.devicesAt = l.w.engine.now
		l.faulted = slices.Delete(l.faulted, i, i+1)
		l.mended = append(l.mended, gpu)
		l.tellMended(gpu)
	}
}

// deviceLook is the interval at which the device watch looks at the GPUs.
const deviceLook = 30 * time.Second

// tellMended reports at every look that a GPU is healthy, until the node has taken it back, because the node may not be
// able to do so at once. A restarted agent gets the report again, because its predecessor may have died before the
// report was on disk. A paused agent gets it again too, because it has not received the fault either.
func (l *launcher) tellMended(gpu string) {
	if l.off || l.m.gone || !slices.Contains(l.mended, gpu) {
		return
	}
	if agent := l.m.proc; agent != nil {
		agent.tell(actor.NewPID(l.m.address, actors.NodePath), &messages.GpuRecovered{GpuId: gpu})
	}
	l.w.engine.after(deviceLook, func() {
		if agent := l.m.proc; agent == nil || agent.paused || agent.node == nil || !agent.node.Ready() ||
			slices.Contains(agent.node.Ledger().WithdrawnGPUs(), topology.GPUID(gpu)) {
			l.tellMended(gpu)
		}
	})
}
