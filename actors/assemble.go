package actors

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns how a process's actors come to be, and what happens when one
// breaks: everything stands under one root supervisor.

// Root builds a process's actor tree and returns its root; begin spawns what
// stands right under it. Production and simulation both come through here.
func Root(p *Ports, begin func(actor.Context)) *actor.PID {
	props := p.Props(KindRoot, func() actor.Actor { return root(begin) })
	pid, err := p.System.Root.SpawnNamed(props, rootName)
	if err != nil {
		panic("the root was assembled twice: " + err.Error())
	}
	return pid
}

// Props is where every actor's Props come from.
func (p *Ports) Props(kind Kind, make actor.Producer) *actor.Props {
	return p.Host.Props(kind, make).Configure(actor.WithSupervisor(stopBroken{p.Host}))
}

// root spawns what the process is.
type root func(actor.Context)

// Receive does its work once, at the start.
func (r root) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*actor.Started); ok {
		r(ctx)
	}
}

// Spawn makes a child; a name that is taken is a broken invariant of the parent. The producer is called once and let
// go: Proto.Actor keeps the Props of children that have ended, and what they were made of with them.
func Spawn(ctx actor.Context, p *Ports, kind Kind, name string, make actor.Producer) *actor.PID {
	once := func() actor.Actor {
		made := make()
		make = nil
		return made
	}
	return SpawnAs(ctx, p.Props(kind, once), name)
}

// SpawnAs makes a child from Props that are kept, where there are many of its kind.
func SpawnAs(ctx actor.Context, props *actor.Props, name string) *actor.PID {
	pid, err := ctx.SpawnNamed(props, name)
	if err != nil {
		panic(name + " was spawned twice: " + err.Error())
	}
	return pid
}

// stopBroken is the supervision of every actor. A panic is a bug. Nothing is
// restarted in place: the message that failed would be lost and later ones
// would meet fresh state. A Job or Coordinator is stopped and recreated from
// disk by its parent; with anything else the whole process goes, and comes back
// from disk. It keeps no state, so that it decides alike on every run.
type stopBroken struct{ host Host }

// HandleFailure stops the child and tells the host.
func (s stopBroken) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, message any) {
	ofJob := strings.HasPrefix(child.Id, SchedulerPath+"/"+JobName(""))
	s.host.Panicked(child, reason, !ofJob)
	sup.StopChildren(child)
	if ofJob && strings.Contains(child.Id, "/"+attemptPrefix) {
		sup.EscalateFailure(reason, message) // a Job does not outlive its Coordinator: it is recreated with one
	}
}
