package sim

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns exec sessions in tasks: in some worlds somebody wants one in each task at each step of its life,
// by way of the leader and of one that led before. No chance is spent on it.

// execSeeds is of how many seeds one has them.
const execSeeds = 8

func (w *World) wantsExecs() bool { return w.opts.Seed%execSeeds == 3 }

// wantExec asks the agent for one in a task of which its launcher was just told something.
func (l *launcher) wantExec(command any, agent *process) {
	about, is := command.(interface{ GetId() *messages.TaskId })
	if !is || !l.w.wantsExecs() || agent.dead || agent.machine == nil || agent.node == nil {
		return
	}
	t := l.tasks[about.GetId().Key()]
	if t == nil {
		return
	}
	epoch := agent.node.Epoch()
	for _, e := range []uint64{epoch, epoch - 1} {
		l.w.count("exec.wanted", 1)
		agent.tell(actor.NewPID(l.m.address, actors.NodePath),
			&messages.ExecTask{Id: about.GetId(), Job: t.job, Epoch: e, Session: "session"})
	}
}

// exec is a launcher that is told to run one. It is looked at as it is passed on: a launcher would refuse what has
// ended meanwhile.
func (l *launcher) exec(c *messages.ExecTask, agent *process) {
	if l.off || agent.dead {
		return
	}
	l.w.count("exec.passed", 1)
	l.w.seen(Event{Kind: ExecPassed, Machine: l.m, Process: agent, Task: l.tasks[c.Id.Key()], Message: c})
}
