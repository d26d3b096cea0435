package sim

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the health of a machine's devices: what breaks and is mended, and
// what the agent is told of it, as the watch of a real one tells it.

// fault breaks a device, until it is mended.
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

// mend makes a device well again.
func (l *launcher) mend(gpu string) {
	if i := slices.Index(l.faulted, gpu); i >= 0 {
		l.m.devicesAt = l.w.engine.now
		l.faulted = slices.Delete(l.faulted, i, i+1)
		l.mended = append(l.mended, gpu)
		l.tellMended(gpu)
	}
}

// deviceLook is how often the watch over devices looks at them.
const deviceLook = 30 * time.Second

// tellMended tells at every look that a device is well, until the machine is seen to have taken it back: it may not be
// able to yet. An agent that starts is told again, because the last one may have died before that was on its disk; and
// so is one that is paused, because it has not received the fault either.
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
