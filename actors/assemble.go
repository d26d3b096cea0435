package actors

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns the creation of a process's actors, and the reaction to a broken actor. One root supervisor is above
// all actors.

// Root builds a process's actor tree and returns its root. The function begin creates the actors directly below the
// root. Production and simulation both call Root.
func Root(p *Ports, begin func(actor.Context)) *actor.PID {
	props := p.Props(KindRoot, func() actor.Actor { return root(begin) })
	pid, err := p.System.Root.SpawnNamed(props, rootName)
	if err != nil {
		panic("the root was assembled twice: " + err.Error())
	}
	return pid
}

// Props returns the Props of a new actor. All Props come from this method.
func (p *Ports) Props(kind Kind, make actor.Producer) *actor.Props {
	return p.Host.Props(kind, make).Configure(actor.WithSupervisor(stopBroken{p.Host}))
}

// root is the root actor. It creates the actors of the process.
type root func(actor.Context)

// Receive does its work once, at the start.
func (r root) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*actor.Started); ok {
		r(ctx)
	}
}

// Spawn creates a child actor. A name in use is a broken invariant of the parent. The producer is called once and
// released, because Proto.Actor keeps the Props of ended children and everything that their producers reference.
func Spawn(ctx actor.Context, p *Ports, kind Kind, name string, make actor.Producer) *actor.PID {
	once := func() actor.Actor {
		made := make()
		make = nil
		return made
	}
	return SpawnAs(ctx, p.Props(kind, once), name)
}

// SpawnAs creates a child from shared Props, for kinds with many actors.
func SpawnAs(ctx actor.Context, props *actor.Props, name string) *actor.PID {
	pid, err := ctx.SpawnNamed(props, name)
	if err != nil {
		panic(name + " was spawned twice: " + err.Error())
	}
	return pid
}

// stopBroken is the supervisor of every actor. A panic is a bug. No actor is restarted in place, because the failed
// message would be lost and later messages would meet a fresh state. A Job or Coordinator is stopped, and its parent
// recreates it from disk. If any other actor panics, the process exits and restarts from disk. The supervisor keeps no
// state, so it decides the same on every run.
type stopBroken struct{ host Host }

// HandleFailure stops the child and notifies the host.
func (s stopBroken) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, message any) {
	ofJob := strings.HasPrefix(child.Id, SchedulerPath+"/"+JobName(""))
	s.host.Panicked(child, reason, !ofJob)
	sup.StopChildren(child)
	if ofJob && strings.Contains(child.Id, "/"+attemptPrefix) {
		sup.EscalateFailure(reason, message) // a Job does not outlive its Coordinator: both are recreated
	}
}
