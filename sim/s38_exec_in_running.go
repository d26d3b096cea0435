package sim

import "github.com/yi-json/synapse/messages"

// execInRunning is S38: an exec session starts only in a task that was started, and only for the leader that the agent
// follows when the Node admits the session. The Task passes it on a moment later. The agent may follow a newer leader
// then.
type execInRunning struct {
	rule
	admitted map[*messages.ExecTask]uint64 // the epoch that the Node followed when it handled the request
}

func newExecInRunning() *execInRunning {
	return &execInRunning{rule{"S38 exec-in-running", on{Handled, ExecPassed}}, map[*messages.ExecTask]uint64{}}
}

func (c *execInRunning) Step(w *World, e *Event) {
	m, is := e.Message.(*messages.ExecTask)
	if !is {
		return
	}
	if e.Kind == Handled {
		c.admitted[m] = e.Before.epoch
		return
	}
	follows, known := c.admitted[m]
	if !known { // the world repeats some messages on a copy of the Node's state
		follows = e.Process.node.Epoch()
	}
	switch t := e.Task; {
	case t == nil || !t.spawned:
		c.violate(w, "%s: an exec session is to run in %v, which was never started", e.Machine.address, m.Id.Key())
	case m.Epoch != follows:
		c.violate(w, "%s: a leader of epoch %d starts an exec session in %v, but the node followed epoch %d",
			e.Machine.address, m.Epoch, t.key, follows)
	}
}
