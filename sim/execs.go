package sim

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file simulates exec sessions in tasks. In some worlds a client requests one in each task at each step of its
// life, through the leader and through an earlier leader. It draws no random numbers.

// execSeeds sets how rare exec sessions are: one seed of so many has them.
const execSeeds = 8

func (w *World) wantsExecs() bool { return w.opts.Seed%execSeeds == 3 }

// wantExec requests an exec session in a task whose launcher just got a command.
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

// exec checks a launcher that gets an exec session. It checks when the command is passed on, because a launcher would
// refuse a task that ended meanwhile.
func (l *launcher) exec(c *messages.ExecTask, agent *process) {
	if l.off || agent.dead {
		return
	}
	l.w.count("exec.passed", 1)
	l.w.seen(Event{Kind: ExecPassed, Machine: l.m, Process: agent, Task: l.tasks[c.Id.Key()], Message: c})
}
