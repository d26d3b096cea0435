package launcher

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/health"
)

// This file connects the Node with the health checks of the node. The checks run in the background. A check that hangs
// delays only the allocation that is being prepared.

// Health checks the node. A report is never older than the report before it.
type Health interface {
	Show(to func(*messages.MachineHealth))
	Run(when health.Occasion, to func(*messages.MachineHealth))
}

// showHealth passes on the known health of the node; nil if nothing checks it.
func (l *Launcher) showHealth(to func(*messages.MachineHealth)) {
	if l.o.Health == nil {
		to(nil)
		return
	}
	l.o.Health.Show(to)
}

// check runs the checks of an occasion and sends the result.
func (l *Launcher) check(c *messages.CheckMachine, to *actor.PID) {
	answer := func(h *messages.MachineHealth) {
		l.send(to, &messages.MachineChecked{Health: h, Token: c.Token})
	}
	if l.o.Health == nil {
		answer(&messages.MachineHealth{})
		return
	}
	when := health.Prepare
	switch c.Occasion {
	case messages.CheckOccasion_CHECK_OCCASION_FAILURE:
		when = health.Failure
	case messages.CheckOccasion_CHECK_OCCASION_SUSPECT:
		when = health.Join | health.Prepare | health.Failure
	}
	l.o.Health.Run(when, answer)
}

// TellHealth reports a change to the Node, if the Node is known.
func (l *Launcher) TellHealth(h *messages.MachineHealth) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send(l.node, &messages.MachineChecked{Health: h})
}
