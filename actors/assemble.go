package actors

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns how a process's actors come to be, and what happens when one
// breaks: everything stands under one root supervisor.

// Assemble builds a process's actor tree and returns its root. Production and
// simulation both come through here.
func Assemble(p Ports) *actor.PID {
	props := p.props(KindRoot, func() actor.Actor { return &root{p: &p} })
	pid, err := p.System.Root.SpawnNamed(props, rootName)
	if err != nil {
		panic("the root was assembled twice: " + err.Error())
	}
	return pid
}

// props is where every actor's Props come from.
func (p *Ports) props(kind Kind, make actor.Producer) *actor.Props {
	return p.Host.Props(kind, make).Configure(actor.WithSupervisor(stopBroken{p.Host}))
}

// root spawns what the process is: a leader, a worker, or both.
type root struct{ p *Ports }

// Receive does its work once, at the start.
func (r *root) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*actor.Started); !ok {
		return
	}
	if r.p.Leader != nil {
		// The Journal and the Mirror first: the Scheduler speaks to them when it starts.
		spawn(ctx, r.p, KindJournal, "journal", func() actor.Actor { return newJournal(r.p) })
		spawn(ctx, r.p, KindMirror, "mirror", func() actor.Actor { return newMirror(r.p) })
		spawn(ctx, r.p, KindScheduler, schedName, func() actor.Actor { return newScheduler(r.p) })
	}
	if r.p.Worker != nil {
		spawn(ctx, r.p, KindNode, nodeName, func() actor.Actor { return newNode(r.p) })
	}
}

// spawn makes a child; a name that is taken is a broken invariant of the parent.
func spawn(ctx actor.Context, p *Ports, kind Kind, name string, make actor.Producer) *actor.PID {
	return spawnAs(ctx, p.props(kind, make), name)
}

// spawnAs makes a child from Props that are kept, where there are many of its kind.
func spawnAs(ctx actor.Context, props *actor.Props, name string) *actor.PID {
	pid, err := ctx.SpawnNamed(props, name)
	if err != nil {
		panic(name + " was spawned twice: " + err.Error())
	}
	return pid
}

// stopBroken is the supervision of every actor. A panic is a bug. Nothing is
// restarted in place: the message that failed would be lost and later ones
// would meet fresh state. A Job or Coordinator is stopped and made anew from
// disk by its parent; with anything else the whole process goes, and comes back
// from disk. It keeps no state, so that it decides alike on every run.
type stopBroken struct{ host Host }

// HandleFailure stops the child and tells the host.
func (s stopBroken) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any) {
	ofJob := strings.HasPrefix(child.Id, SchedulerPath+"/"+jobName(""))
	s.host.Panicked(child, reason, !ofJob)
	sup.StopChildren(child)
	if ofJob && strings.Contains(child.Id, "/"+attemptPrefix) {
		sup.EscalateFailure(reason, message) // a Job does not outlive its Coordinator: it is made anew with one
	}
}
