package sim

import "github.com/yi-json/synapse/actors"

// This file owns actors that break: one panics at a drawn message, before it has
// done anything about it or with all of it told. Proto.Actor hears of it as from
// its own mailbox, so what follows is the actors' own: a Job is remade from disk,
// a Coordinator with its Job, and with any other actor its process ends.

// breaking is the panic in waiting.
type breaking struct {
	kind  actors.Kind // whose; empty: not drawn yet
	skip  int         // messages to such actors before it
	after bool        // that message was handled
	only  string      // the actor that a script chose; empty: any
	jobs  map[string]int
}

// broken is the value of an injected panic.
type broken struct{}

// remadeMost is how often one job's actor breaks: each time it is remade later
// than the last, and a job that always breaks would outlast every bound.
const remadeMost = 2

var breakable = []actors.Kind{
	actors.KindJob, actors.KindJob, actors.KindJob, actors.KindJob, actors.KindCoordinator, actors.KindCoordinator,
	actors.KindScheduler, actors.KindRack, actors.KindJournal, actors.KindMirror, actors.KindNode, actors.KindTask,
}

// breaks reports whether the actor breaks at this message.
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

// crack has the actor break at a message.
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

// isBroken reports whether a panic is one of ours.
func isBroken(reason any) bool { _, is := reason.(broken); return is }
