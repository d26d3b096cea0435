package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the admission of exec sessions on the node. A session is admitted only for the newest leader, and only
// in a running task. It changes no state of the Node. Its input, output and exit code pass from the launcher to the
// requester, not through the actors.

// onExec passes an exec session that a leader's gateway requests to the Task.
func (n *Node) onExec(ctx actor.Context, m *messages.ExecTask) {
	if n.epoch != m.Epoch || !n.Ready() || m.Validate() != nil {
		n.p.Host.Count("node.fenced", 1) // the requester's leader is not the current one
		return
	}
	k := m.Id.Key()
	s := n.slices[k.Token]
	if s == nil || string(s.page.Job) != m.Job || s.task(k.Rank) == nil {
		refuseExec(ctx, m, ctx.Sender(), "task is not on this node")
		return
	}
	ctx.Send(s.task(k.Rank), taskExec{m, ctx.Sender()})
}

// task returns the Task of one rank, or nil if there is none.
func (s *nodeAllocation) task(rank topology.Rank) *actor.PID {
	for i := range s.ranks {
		if s.ranks[i].rank == rank {
			return s.ranks[i].pid
		}
	}
	return nil
}

// onExec asks the launcher to start the session if the task is running.
func (t *Task) onExec(ctx actor.Context, m taskExec) {
	if !t.states.In(taskRunning) {
		refuseExec(ctx, m.Exec, m.from, "task is not running")
		return
	}
	t.p.Launcher.Tell(m.Exec, m.from)
}

func refuseExec(ctx actor.Context, m *messages.ExecTask, to *actor.PID, why string) {
	if to != nil {
		ctx.Send(to, &messages.ExecRefused{Id: m.Id, Session: m.Session, Text: why})
	}
}
