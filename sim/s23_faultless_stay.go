package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
)

// faultlessStay is S23: a node becomes unschedulable only for faults that are, or may be, its own. A job's fault closes
// no node, and a single job closes no node. This checker counts the failures of a node's launcher from the first day
// and never forgets any. A leader that forgets earlier closes later. A node that lied is closed for that, which S27
// checks.
type faultlessStay struct {
	rule
	failed map[string][]failedTask // by node: tasks that never ran there
}

// failedTask is a task that never ran, and the time since which its agent has known that.
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
		mute := w.lostWords(w.machine(n.Id), t.at) // nobody has reported whose fault it was
		if t.exit.Fault == messages.Fault_FAULT_MACHINE {
			own++
		}
		if mute || t.exit.Fault == messages.Fault_FAULT_UNKNOWN {
			doubtful[t.job] = true
		}
	}
	if own < w.constants.LaunchFailures && len(doubtful) < w.constants.LaunchFailures {
		c.violate(w, "%s became unschedulable after %d own failures and failures of %d jobs that may be its own: %s",
			n.Id, own,
			len(doubtful), n.Cordoned.Reason)
	}
}
