package sim

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/scheduler"
	"github.com/yi-json/synapse/messages"
)

// This file owns what a step costs. Where an actor is slow, its step takes time: it
// reads its clock when it begins, what it says to other machines, disks and timers
// leaves when it is through, and its mailbox waits as long. The other actors of the
// process go on, as on other processors, and heartbeats, leases and deadlines with them.

// slowness is how slow the actors of a kind are in one process, for a while.
type slowness struct {
	kind  actors.Kind
	most  time.Duration // of one step
	only  string        // the messages that cost this; empty: each
	until instant
}

// cost draws what a step takes; mostly nothing.
func (m *mailbox) cost(message any) time.Duration {
	w := m.proc.w
	for _, s := range m.proc.slow {
		if s.kind == m.kind && w.engine.now < s.until && (s.only == "" || s.only == fmt.Sprintf("%T", unwrapped(message))) {
			w.count("busy."+string(m.kind), 1)
			return w.toil.skewed(time.Microsecond, s.most)
		}
	}
	return 0
}

// toils keeps a mailbox waiting until its actor is through with a step.
func (m *mailbox) toils(cost time.Duration) {
	if cost > 0 && !m.proc.dead {
		m.busy = m.proc.w.engine.now.plus(cost)
		m.proc.w.engine.at(m.busy, action(m.wake))
	}
}

// slow makes one kind of actor in a process slow for a while.
func (f *faults) slow(p *process, s slowness) bool {
	if p == nil || p.paused {
		return false
	}
	d := f.w.luck.skewed(time.Second, f.w.draw.Pace)
	s.until = f.w.engine.now.plus(d)
	f.w.note(p, "its %s takes up to %s for a step, for %s", s.kind, s.most, d)
	p.slow = append(p.slow, s)
	f.until(d, func() { p.slow = nil })
	return true
}

// slowPass is a leader whose passes take long: the queue is deep, or the room large.
func slowPass(f *faults) bool {
	return f.slow(f.w.leader(), slowness{
		kind: actors.KindScheduler, most: f.w.draw.Busy, only: fmt.Sprintf("%T", scheduler.PlanNow{}),
	})
}

// slowLeader is one that has to share its processors: attempts and jobs go on slowly.
func slowLeader(f *faults) bool {
	kinds := []actors.Kind{actors.KindCoordinator, actors.KindJob, actors.KindJournal, actors.KindRack}
	return f.slow(f.w.leader(), slowness{kind: kinds[f.w.luck.below(len(kinds))], most: f.w.draw.Busy / 16})
}

// slowExplain has people ask why their jobs wait while each answer takes long.
func slowExplain(f *faults) bool {
	p := f.w.leader()
	if len(f.w.client.jobs) == 0 ||
		!f.slow(p, slowness{kind: actors.KindMirror, most: f.w.draw.Busy / 4, only: "*messages.ExplainJob"}) {
		return false
	}
	for range 20 {
		o := f.w.client.jobs[f.w.luck.below(len(f.w.client.jobs))]
		f.w.send(nil, actor.NewPID(p.address, actors.MirrorPath), actor.NewPID(clientAddress, "explain"),
			&messages.ExplainJob{Principal: anonymous, Job: o.id})
	}
	return true
}

// slowAgent is a machine whose agent hardly gets to run beside the tasks.
func slowAgent(f *faults, m *machine) bool {
	return f.slow(m.proc, slowness{kind: actors.KindNode, most: f.w.draw.Busy / 4})
}
