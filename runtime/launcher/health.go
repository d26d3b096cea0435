package launcher

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/health"
)

// This file owns the way between the Node and the checks of the machine's health. They run beside everything else, so
// one that hangs keeps no task and no actor waiting but the slice that is to be prepared.

// Health checks the node. It never returns a report older than the one before.
type Health interface {
	Show(to func(*messages.MachineHealth))
	Run(when health.Occasion, to func(*messages.MachineHealth))
}

// showHealth hands over what is known of the machine's health; nil: nothing checks it.
func (l *Launcher) showHealth(to func(*messages.MachineHealth)) {
	if l.o.Health == nil {
		to(nil)
		return
	}
	l.o.Health.Show(to)
}

// check runs the checks of an occasion, and answers.
func (l *Launcher) check(c *messages.CheckMachine, to *actor.PID) {
	answer := func(h *messages.MachineHealth) {
		l.send(to, &messages.MachineChecked{Health: h, Token: c.Token})
	}
	if l.o.Health == nil {
		answer(&messages.MachineHealth{})
		return
	}
	when := health.Prepare
	if c.Occasion == messages.CheckOccasion_CHECK_OCCASION_FAILURE {
		when = health.Failure
	}
	l.o.Health.Run(when, answer)
}

// TellHealth tells the Node, if it is known, that something has changed.
func (l *Launcher) TellHealth(h *messages.MachineHealth) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send(l.node, &messages.MachineChecked{Health: h})
}
