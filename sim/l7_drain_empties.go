package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// drainEmpties is L7: a drain empties a node within its grace. When all is repaired, an operator drains a node with
// work, and later takes the drain back.
type drainEmpties struct {
	rule
	machine *machine
	done    bool
	acked   instant
}

const drainGrace = 5 * time.Second

func newDrainEmpties() *drainEmpties {
	return &drainEmpties{rule: rule{"L7 drain-empties", on{Scanned}}}
}

func (c *drainEmpties) Step(w *World, _ *Event) {
	if !w.healed || c.done || w.resting || w.engine.now.since(w.healedAt) < 40*time.Second {
		return
	}
	if c.machine == nil {
		c.begin(w)
		return
	}
	n := w.books.nodes[string(c.machine.id)]
	if c.acked == 0 && n.GetDrained() != nil {
		c.acked = w.engine.now
	}
	if c.acked == 0 || w.engine.now.since(c.acked) < drainGrace+14*time.Second+10*time.Second {
		return
	}
	c.done, c.machine.drained = true, false
	for _, t := range c.machine.launcher.order {
		if t.state == taskRunning {
			c.violate(w, "%v of job %s still runs on %s, which was drained at %s",
				t.key, t.job, c.machine.address, clockFace(c.acked))
			return
		}
	}
	w.client.change(c.machine, messages.NodeVerb_NODE_VERB_UNCORDON, 0)
}

func (c *drainEmpties) begin(w *World) {
	for _, m := range w.machines {
		if w.open(m) && !m.drained && len(m.launcher.order) > 0 {
			c.machine = m
			m.drained = true
			w.client.drain(m, drainGrace)
			return
		}
	}
}
