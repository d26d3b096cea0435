package sim

import "github.com/yi-json/synapse/messages"

// execInRunning is S38: an exec session starts only in a task that was started, and only for the newest leader that the
// agent follows.
type execInRunning struct{ rule }

func newExecInRunning() *execInRunning {
	return &execInRunning{rule{"S38 exec-in-running", on{ExecPassed}}}
}

func (c *execInRunning) Step(w *World, e *Event) {
	m := e.Message.(*messages.ExecTask)
	switch t := e.Task; {
	case t == nil || !t.spawned:
		c.violate(w, "%s: an exec session is to run in %v, which was never started", e.Machine.address, m.Id.Key())
	case m.Epoch != e.Process.node.Epoch():
		c.violate(w, "%s: a leader of epoch %d starts an exec session in %v, but the node follows epoch %d",
			e.Machine.address, m.Epoch, t.key, e.Process.node.Epoch())
	}
}
