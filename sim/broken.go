package sim

import "github.com/yi-json/synapse/actors"

// This file makes an actor fail. The actor panics at a drawn message, before it handles the message or after it has
// handled all of it. Proto.Actor handles the panic as in production. So the effect is the real one: a Job is recreated
// from disk, and a Coordinator is recreated with its Job. If any other actor fails, its process ends.

// breaking describes a planned panic.
type breaking struct {
	kind  actors.Kind // kind of the actor; empty: not drawn yet
	skip  int         // number of messages to such actors before the panic
	after bool        // panic after the message was handled, not before
	only  string      // path of the actor that a script chose; empty: any actor
	jobs  map[string]int
}

// broken is the value of an injected panic.
type broken struct{}

// remadeMost limits how often the actor of one job fails. Each failure delays the next recreation, so a job that always
// fails would exceed every bound.
const remadeMost = 2

var breakable = []actors.Kind{
	actors.KindJob, actors.KindJob, actors.KindJob, actors.KindJob, actors.KindCoordinator, actors.KindCoordinator,
	actors.KindScheduler, actors.KindRack, actors.KindJournal, actors.KindMirror, actors.KindNode, actors.KindTask,
}

// breaks reports whether the actor fails at this message.
func (w *World) breaks(m *mailbox) bool {
	b := w.breaking
	if b == nil || w.engine.now < w.faults.byName["actor-break"].next {
		return false
	}
	if b.kind == "" {
		b.kind, b.after = breakable[w.luck.below(len(breakable))], w.luck.chance(0.5)
		b.skip = w.luck.below(30)
	}
	if m.kind != b.kind || b.only != "" && m.self.Id != b.only ||
		m.proc.machine != nil && m.proc.machine.original != nil || b.jobs[m.self.Id] >= remadeMost {
		return false
	}
	if b.skip--; b.skip >= 0 || !w.fires("actor-break") {
		return false
	}
	b.jobs[m.self.Id]++
	w.count("broken."+string(b.kind), 1)
	b.kind = ""
	return true
}

// crack makes the actor fail at a message.
func (m *mailbox) crack(message any) {
	w := m.proc.w
	after := w.breaking.after
	w.note(m.proc, "%s breaks at %T, after=%v", m.self.Id, unwrapped(message), after)
	if after {
		m.handle(message)
	}
	if !m.proc.dead {
		m.invoker.EscalateFailure(broken{}, message)
	}
}

// isBroken reports whether this file injected a panic.
func isBroken(reason any) bool { _, is := reason.(broken); return is }
