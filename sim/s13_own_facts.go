package sim

import (
	"strings"

	"github.com/yi-json/synapse/messages"
)

// ownFacts is S13: facts about a node count only from that node in its current incarnation. A clone is never welcomed,
// runs nothing, and never replaces the node in the store. A node of another cluster keeps its identity: it follows no
// leader here, and its task continues.
type ownFacts struct{ rule }

func newOwnFacts() *ownFacts {
	return &ownFacts{rule: rule{"S13 own-facts", on{Sent, Stored, TaskSpawned, TaskEnded, Handled}}}
}

func (c *ownFacts) Step(w *World, e *Event) {
	switch e.Kind {
	case TaskSpawned:
		if e.Machine.original != nil && w.books.nodes[string(e.Machine.id)].GetMachineId() != e.Machine.machineID {
			c.violate(w, "%v of job %s was started on a clone of %s", e.Task.key, e.Task.job, e.Machine.address)
		}
	case TaskEnded:
		if e.Machine.home > 0 && e.Task.exit != nil {
			c.violate(w, "task %v of another cluster was ended on %s: %v", e.Task.key, e.Machine.address, e.Task.exit)
		}
	case Handled:
		if n, home := e.Process.node, e.Machine.home; home > 0 && n.Ready() && (n.Epoch() != home || !n.Alone()) {
			c.violate(w, "%s is of another cluster, where it follows epoch %d: it is %s here and follows epoch %d",
				e.Machine.address, home,
				n.State(), n.Epoch())
		}
	case Stored:
		c.onStored(w, e.Stored)
	case Sent:
		if m, is := e.Message.(*messages.Welcome); is && strings.Contains(m.Incarnation.GetBootId(), cloneMark) &&
			!c.taken(w, e, m) {
			c.violate(w, "a clone was welcomed as %s", m.Incarnation.BootId)
		}
	}
}

// cloneMark is part of the machine ID of every clone.
const cloneMark = "-clone"

// taken reports whether the store knows the clone under this node's ID. This happens if the operator removed the first
// host and the clone connected next.
func (c *ownFacts) taken(w *World, e *Event, m *messages.Welcome) bool {
	if e.To == nil || e.To.machine == nil {
		return false
	}
	n := w.books.nodes[string(e.To.machine.id)]
	if n != nil && n.MachineId == "" {
		return true
	}
	return n != nil && strings.HasPrefix(m.Incarnation.BootId, n.MachineId+"-boot")
}

func (c *ownFacts) onStored(w *World, s *stored) {
	// A node whose record was unreadable has no known identity.
	if was := s.nodeWas.GetMachineId(); was != "" && s.node != nil && s.node.MachineId != was && s.nodeWas.Removed == nil {
		c.violate(w, "node %s was host %s, and now is host %s", s.node.Id, was, s.node.MachineId)
	}
	for _, a := range s.committed() {
		for _, p := range a.Places {
			if n := w.books.nodes[p.Node]; n == nil || n.MachineId != "" && n.MachineId != p.MachineId {
				c.violate(w, "job %s was committed to %s, which the store does not know as node %s", a.Job, p.MachineId, p.Node)
			}
		}
	}
}
