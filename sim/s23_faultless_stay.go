package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
)

// faultlessStay is S23: a machine closes itself only for what is its own fault,
// or may be: a job's fault closes no machine, and neither does one job alone.
// What its launcher failed at is counted from the machine's first day, and never
// forgotten: a leader that forgets sooner closes later. A machine that lied is
// closed for that, and S27 says when it may be.
type faultlessStay struct {
	rule
	failed map[string][]failedTask // by machine, what never ran there
}

// failedTask is a task that never ran, and since when its agent knew that.
type failedTask struct {
	*task
	at instant
}

func newFaultlessStay() *faultlessStay {
	return &faultlessStay{rule: rule{"S23 faultless-stay", on{Stored, TaskEnded}}, failed: map[string][]failedTask{}}
}

func (c *faultlessStay) Step(w *World, e *Event) {
	if e.Kind == TaskEnded {
		switch e.Task.exit.GetKind() {
		case messages.ExitKind_EXIT_KIND_PREPARE_FAILED, messages.ExitKind_EXIT_KIND_LAUNCH_FAILED:
			c.failed[string(e.Machine.id)] = append(c.failed[string(e.Machine.id)],
				failedTask{e.Task, w.engine.now})
		}
		return
	}
	n := e.Stored.node
	if n == nil || n.Cordoned.GetBy().GetName() != "synapse" || e.Stored.nodeWas.GetCordoned().GetBy().
		GetName() == "synapse" {
		return
	}
	if slices.ContainsFunc(w.machines, func(m *machine) bool { return string(m.id) == n.Id && m.lied }) {
		return
	}
	own, doubtful := 0, map[string]bool{}
	for _, t := range c.failed[n.Id] {
		mute := w.lostWords(w.machine(n.Id), t.at) // nobody has said whose fault it was
		if t.exit.Fault == messages.Fault_FAULT_MACHINE {
			own++
		}
		if mute || t.exit.Fault == messages.Fault_FAULT_UNKNOWN {
			doubtful[t.job] = true
		}
	}
	if own < w.constants.LaunchFailures && len(doubtful) < w.constants.LaunchFailures {
		c.violate(w, "%s closed itself after %d failures of its own and those of %d jobs that may be: %s", n.Id, own,
			len(doubtful), n.Cordoned.Reason)
	}
}
