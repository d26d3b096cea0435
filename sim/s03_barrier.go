package sim

import (
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// barrier is S3. A member passes the start barrier only if COMMIT is on disk and every member was prepared. A member
// starts only once, ever. A gang counts as started only if each member has started.
type barrier struct {
	rule
	prepared map[topology.TaskKey]struct{}
	spawned  map[topology.TaskKey]*machine
}

func newBarrier() *barrier {
	return &barrier{rule: rule{"S3 barrier", on{Sent, Stored, TaskPrepared, TaskSpawned}},
		prepared: map[topology.TaskKey]struct{}{}, spawned: map[topology.TaskKey]*machine{}}
}

func (c *barrier) Step(w *World, e *Event) {
	switch e.Kind {
	case TaskPrepared:
		c.prepared[e.Task.key] = struct{}{}
	case TaskSpawned:
		c.onSpawned(w, e)
	case Stored:
		for i, a := range e.Stored.attempts {
			if a.StartedUnixMs != 0 && e.Stored.attemptsWere[i].GetStartedUnixMs() == 0 {
				c.started(w, a)
			}
		}
	case Sent:
		if m, is := e.Message.(*messages.Committed); is {
			c.durable(w, e, messages.FromToken(m.Origin.GetToken()))
		}
		// A Start that was sent while the last exits arrived finds a tombstone.
		if m, is := e.Message.(*messages.Start); is && !w.books.settled(messages.FromToken(m.Order.GetToken())) {
			c.all(w, messages.FromToken(m.Order.GetToken()), "Start was sent")
		}
	}
}

func (c *barrier) onSpawned(w *World, e *Event) {
	k := e.Task.key
	if before, twice := c.spawned[k]; twice {
		c.violate(w, "%v of job %s was started on %s, and before on %s", k, e.Task.job, e.Machine.address, before.address)
		return
	}
	c.spawned[k] = e.Machine
	if e.Machine.raged && w.books.settled(k.Token) {
		return // the node had reported its end, and harms only itself
	}
	a := c.all(w, k.Token, "a process was spawned")
	if a == nil {
		return
	}
	for _, p := range a.Places {
		if p.Rank == int32(k.Rank) && (p.Node != string(e.Machine.id) || p.MachineId != e.Machine.machineID) {
			c.violate(w, "%v of job %s was started on %s, but its place is %s", k, a.Job, e.Machine.machineID, p.MachineId)
		}
	}
}

// started looks for a member that never started although the store records the gang as started.
func (c *barrier) started(w *World, a *messages.AttemptRecord) {
	for _, p := range a.Places {
		k := messages.KeyOf(a.Token, p.Rank)
		if m := w.machine(p.Node); m != nil && m.raged {
			continue // the node reports this about its own task, and harms only itself
		}
		if c.spawned[k] == nil && p.Exit == nil {
			c.violate(w, "job %s counts as started, but its rank %d never started", a.Job, p.Rank)
			return
		}
	}
}

// durable checks that the allocation is on the disk of a node that reports it as committed. An agent's memory alone is
// no commitment.
func (c *barrier) durable(w *World, e *Event, t topology.Token) {
	m := e.Process.machine
	if m == nil || m.disk.torn {
		return
	}
	record, err := worker.DecodeRecord(m.disk.content)
	if err == nil {
		for _, s := range record.Slices {
			if messages.FromToken(s.Token) == t {
				return
			}
		}
	}
	c.violate(w, "%s reports %v as committed, but its disk does not have it", m.address, t)
}

// all checks that COMMIT is on disk and every member was prepared. A false report of a node about its own lost member
// is accepted, because it harms only this gang.
func (c *barrier) all(w *World, t topology.Token, what string) *messages.AttemptRecord {
	a := w.books.attempts[t]
	if a == nil && w.loss.tokens[t] {
		return nil // it was there, and its Start was on the way when the store was restored
	}
	if a == nil {
		c.violate(w, "%s for %v, which has no COMMIT on disk", what, t)
		return nil
	}
	for _, p := range a.Places {
		liar := w.machine(p.Node)
		if _, ready := c.prepared[topology.TaskKey{Token: t, Rank: topology.Rank(p.Rank)}]; !ready && p.Exit == nil &&
			!(liar != nil && (liar.intruded[t] || liar.raged)) {
			c.violate(w, "%s for %v of job %s, whose rank %d was never prepared", what, t, a.Job, p.Rank)
			return nil
		}
	}
	return a
}
