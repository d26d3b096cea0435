package sim

import (
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// heirTakesOver is S44: a restart in place uses exactly the places of the attempt before, except on nodes that it
// replaces. The ranks of a node stay together, and at least one node is kept. The attempt before has ended, its end
// asked to keep the resources, and every exit on a kept node is on disk before or with COMMIT. An attempt has at most
// one heir. No node keeps resources for longer than its last Stop asked.
type heirTakesOver struct {
	rule
	heirs map[topology.Token]topology.Token // by the attempt before
	awake map[*process]instant              // since when each agent has not been paused
}

func newHeirTakesOver() *heirTakesOver {
	return &heirTakesOver{rule{"S44 heir-takes-over", on{Stored, Scanned}}, map[topology.Token]topology.Token{},
		map[*process]instant{}}
}

func (c *heirTakesOver) restored(*World) { clear(c.heirs) } // the store may have lost a COMMIT

func (c *heirTakesOver) Step(w *World, e *Event) {
	if e.Kind == Scanned {
		for _, m := range w.machines {
			c.onMachine(w, m)
		}
		return
	}
	for _, a := range e.Stored.committed() {
		if a.Inherited != nil {
			c.onHeir(w, e.Stored, a)
		}
	}
}

func (c *heirTakesOver) onHeir(w *World, s *stored, a *messages.AttemptRecord) {
	token, from := messages.FromToken(a.Token), messages.FromToken(a.Inherited.GetFrom())
	w.count("heirs", 1)
	w.inPlace[token] = instant(int64(s.decided) - int64(actors.Millis(a.InPlaceMs)))
	if other, twice := c.heirs[from]; twice {
		c.violate(w, "%v of job %s has two heirs, %v and %v", from, a.Job, other, token)
	}
	c.heirs[from] = token
	was := w.books.attempts[from]
	for _, next := range s.attempts {
		if messages.FromToken(next.Token) == from {
			was = next // written together with COMMIT
		}
	}
	switch {
	case was == nil:
		c.violate(w, "%v of job %s inherits from %v, which is not on disk", token, a.Job, from)
		return
	case was.GetEnd().GetHoldMs() == 0 || len(was.Places) != len(a.Places):
		c.violate(w, "%v of job %s inherits from %v, which is not kept: %v", token, a.Job, from, was.End)
		return
	}
	moved := map[string]string{} // the new node of each replaced node
	kept := false
	for i, p := range a.Places {
		q := was.Places[i]
		same := p.Node == q.Node && p.MachineId == q.MachineId && proto.Equal(p.Grant, q.Grant)
		if to, seen := moved[q.Node]; seen && to != p.Node || p.Exit != nil || p.Rank != q.Rank ||
			!proto.Equal(p.Grant.GetAmount(), q.Grant.GetAmount()) || same && q.Exit == nil ||
			p.Node == q.Node && !same && c.keeps(w, q.Node, from) {
			c.violate(w, "%v of job %s has rank %d at another place than %v before it", token, a.Job, p.Rank, from)
			return
		}
		if _, seen := moved[q.Node]; !seen && p.Node != q.Node {
			w.count("swapped nodes", 1)
		}
		kept, moved[q.Node] = kept || same, p.Node
	}
	if !kept {
		c.violate(w, "%v of job %s keeps no place of %v", token, a.Job, from)
	}
}

// keeps reports whether a node keeps the resources of an attempt.
func (c *heirTakesOver) keeps(w *World, node string, t topology.Token) (is bool) {
	for _, m := range w.machines {
		if string(m.id) == node && m.proc != nil && m.proc.node != nil && m.proc.node.Ready() {
			m.proc.node.EachKept(func(k topology.Token, _ actors.Instant) { is = is || k == t })
		}
	}
	return is
}

// onMachine checks that holds end in time.
func (c *heirTakesOver) onMachine(w *World, m *machine) {
	if m.proc == nil || m.proc.node == nil || !m.proc.node.Ready() || m.original != nil {
		return
	}
	if m.proc.paused || c.awake[m.proc] == 0 {
		c.awake[m.proc] = w.engine.now
	}
	if w.engine.now.since(c.awake[m.proc]) < 2*w.constants.Heartbeat {
		return
	}
	m.proc.node.EachKept(func(t topology.Token, until actors.Instant) {
		if late := m.now().Since(until); late > 2*w.constants.Heartbeat {
			c.violate(w, "%s keeps the resources of %v for %s longer than a Stop asked", m.address, t, late)
		}
	})
}
