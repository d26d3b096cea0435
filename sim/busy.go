package sim

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/scheduler"
	"github.com/yi-json/synapse/messages"
)

// This file simulates the duration of steps. A step of a slow actor takes time. The actor reads its clock at the
// beginning of the step. Its messages to other nodes, disks and timers leave at the end, and its mailbox waits until
// then. Other actors of the process continue, as on other processors. So do heartbeats, leases and deadlines.

// slowness makes the actors of one kind slow in one process, for a while.
type slowness struct {
	kind  actors.Kind
	most  time.Duration // longest duration of one step
	only  string        // type of the slow messages; empty: all
	until instant
}

// cost draws the duration of a step, which is usually zero.
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

// toils keeps a mailbox waiting until its actor has finished a step.
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
	f.w.note(p, "its %s takes up to %s per step, for %s", s.kind, s.most, d)
	p.slow = append(p.slow, s)
	f.until(d, func() { p.slow = nil })
	return true
}

// slowPass makes the passes of the leader slow, as with a deep queue or a large cluster.
func slowPass(f *faults) bool {
	return f.slow(f.w.leader(), slowness{
		kind: actors.KindScheduler, most: f.w.draw.Busy, only: fmt.Sprintf("%T", scheduler.PlanNow{}),
	})
}

// slowLeader slows the attempts and jobs of the leader, as on a host with too few processors.
func slowLeader(f *faults) bool {
	kinds := []actors.Kind{actors.KindCoordinator, actors.KindJob, actors.KindJournal, actors.KindRack}
	return f.slow(f.w.leader(), slowness{kind: kinds[f.w.luck.below(len(kinds))], most: f.w.draw.Busy / 16})
}

// slowExplain makes clients request explanations while each answer takes long.
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

// slowAgent slows a node's agent, as next to tasks that use all processors.
func slowAgent(f *faults, m *machine) bool {
	return f.slow(m.proc, slowness{kind: actors.KindNode, most: f.w.draw.Busy / 4})
}
