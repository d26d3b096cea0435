package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// barrierFailed is S40: if the start barrier of a gang fails, the ranks that had started are gone within 2 s of the
// moment when its end is on disk. This holds on each node that the leader can reach all that time, and whose agent and
// disk work. Two kinds of ends are no failure of the barrier, and have the job's grace: the end of an attempt that an
// earlier leader committed, which may have run for long, and a stop by a user or an operator. A process that the kernel
// does not end is left out.
type barrierFailed struct {
	rule
	ending []ending
}

// ending lists the tasks that a node still has to end.
type ending struct {
	key    topology.TaskKey
	m      *machine
	agent  *process
	leader *process
	stream uint32 // stream of the link between the node and the leader
	since  instant
}

// barrierGone is the bound.
const barrierGone = 2 * time.Second

func newBarrierFailed() *barrierFailed {
	return &barrierFailed{rule: rule{"S40 barrier-failed", on{Stored, Scanned}}}
}

func (c *barrierFailed) Step(w *World, e *Event) {
	if e.Kind == Stored {
		for i, a := range e.Stored.attempts {
			if a.End != nil && e.Stored.attemptsWere[i] != nil && e.Stored.attemptsWere[i].End == nil {
				c.onEnd(w, e.Stored, a)
			}
		}
		return
	}
	kept := c.ending[:0]
	for i := range c.ending {
		x := &c.ending[i]
		t := x.m.launcher.tasks[x.key]
		if t == nil || !t.spawned || t.exit != nil || t.stuck || !x.works(w) {
			continue
		}
		if late := w.engine.now.since(x.since); late > barrierGone {
			c.violate(w, "%v of job %s runs on %s, %s after the start barrier of its gang had failed", x.key, t.job,
				x.m.address, late)
			return
		}
		kept = append(kept, *x)
	}
	c.ending = kept
}

// onEnd notes the running ranks of a gang that did not start completely.
func (c *barrierFailed) onEnd(w *World, s *stored, a *messages.AttemptRecord) {
	t := messages.FromToken(a.Token)
	switch a.End.Cause {
	case messages.Cause_CAUSE_CANCELLED, messages.Cause_CAUSE_REQUEUED, messages.Cause_CAUSE_PREEMPTED:
		return
	}
	if a.StartedUnixMs != 0 || w.store.unheard || s.proc != w.leader() || s.proc.host == nil || t.Epoch != s.proc.epoch {
		return
	}
	for _, p := range a.Places {
		m, key := w.machine(p.Node), messages.KeyOf(a.Token, p.Rank)
		if m == nil || m.machineID != p.MachineId || m.proc == nil {
			continue
		}
		if task := m.launcher.tasks[key]; task == nil || !task.spawned || task.exit != nil {
			continue
		}
		w.count("barrier.failed", 1)
		x := ending{key, m, m.proc, s.proc, m.links[s.proc.host.index].stream, w.engine.now}
		if x.works(w) {
			w.count("barrier.failed-judged", 1)
			c.ending = append(c.ending, x)
		}
	}
}

// works reports whether nothing delays a Stop and its effect.
func (x *ending) works(w *World) bool {
	l := x.m.links[x.leader.host.index]
	for _, p := range []*process{x.agent, x.leader} {
		if p.dead || p.paused || len(p.slow) > 0 {
			return false
		}
	}
	return w.hostile == nil && x.agent.node != nil && x.agent.node.Member() &&
		l.up() && !l.blocked() && l.stream == x.stream && l.agent == x.agent &&
		x.m.disk.stalled < x.since && !x.m.lied && !x.m.raged && x.leader == w.leader()
}
