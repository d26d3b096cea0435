package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what is run in tasks beside their commands, as far as the machine's actors have a say: only for the
// newest leader, and only in a task that runs. It changes nothing here. What the process reads and writes goes past the
// actors, from the launcher to whoever asked, and so does its end.

// onExec passes on what a leader's gateway asks for on somebody's behalf.
func (n *Node) onExec(ctx actor.Context, m *messages.ExecTask) {
	if n.epoch != m.Epoch || !n.Ready() || m.Validate() != nil {
		n.p.Host.Count("node.fenced", 1) // another leads, and whoever asked has lost its way
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

// task is the Task of one rank; nil: there is none.
func (s *nodeSlice) task(rank topology.Rank) *actor.PID {
	for i := range s.ranks {
		if s.ranks[i].rank == rank {
			return s.ranks[i].pid
		}
	}
	return nil
}

// onExec has the launcher run it, if the task runs.
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
