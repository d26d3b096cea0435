package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// epochsGrow is S6: every leader's epoch is higher than the one before, a
// machine never goes back to a lower one, not even by a restart, and an order
// from a lower one changes nothing there. A machine whose disk fails may follow a
// leader before its disk has the epoch: it then begins nothing that it is told to,
// and only a restart, which loses that epoch, may bring it back to the one before. Nothing is stored for a leader of
// the past, and a process that the store told so leads no longer — unless the answer came so late that it had given it
// up, which only a store in trouble does.
type epochsGrow struct {
	rule
	led     uint64
	leader  *process          // the last who led
	highest map[string]uint64 // by machine id: the highest a ready Node had accepted and kept
	heard   map[int]uint64    // by process: the highest it had accepted
}

func newEpochsGrow() *epochsGrow {
	return &epochsGrow{rule: rule{"S6 epochs-grow", on{Led, Handled, Stored, Scanned, Quarantined}},
		highest: map[string]uint64{}, heard: map[int]uint64{}}
}

func (c *epochsGrow) Step(w *World, e *Event) {
	switch e.Kind {
	case Led:
		if e.Epoch <= c.led {
			c.violate(w, "%s leads with %d after %d", e.Process.address, e.Epoch, c.led)
		}
		c.led, c.leader = e.Epoch, e.Process
	case Quarantined:
		// The record that held the fence was unreadable. What the machine then
		// accepts is a new start for it, as the design says.
		delete(c.highest, e.Process.machine.machineID)
	case Handled:
		c.onHandled(w, e)
	case Stored:
		if e.Stored.epoch < c.led {
			c.violate(w, "a write of epoch %d was stored, and %d leads", e.Stored.epoch, c.led)
		}
		if e.Stored.proc != c.leader {
			c.violate(w, "a write of %s was stored, and %s leads with the same epoch", e.Stored.proc.holder(), c.leader.holder())
		}
	case Scanned:
		if w.faults.byName["store-stall"] != nil || w.faults.byName["store-error"] != nil {
			return
		}
		for _, h := range w.schedulers {
			if p := h.proc; p != nil && !p.paused && p.deposedAt > 0 && w.engine.now.since(p.deposedAt) > 2*time.Second {
				c.violate(w, "%s was told at %s that it no longer leads, and goes on", p.address, clockFace(p.deposedAt))
			}
		}
	}
}

// restored: a copy of the store may have had an earlier leader. Machines do not
// go back with it.
func (c *epochsGrow) restored(w *World) { c.led = w.store.kept.Epoch() }

func (c *epochsGrow) onHandled(w *World, e *Event) {
	node := e.Process.node
	if node.Ready() {
		id, now := e.Machine.machineID, node.Epoch()
		if most := max(c.highest[id], c.heard[e.Process.serial]); now < most {
			c.violate(w, "%s accepted %d and follows %d", e.Machine.address, most, now)
		}
		c.heard[e.Process.serial] = now
		if node.Sworn() {
			c.highest[id] = now
		}
	}
	switch e.Message.(type) {
	case *messages.Reserve, *messages.Commit, *messages.Start:
		if !e.Before.sworn && node.Ledger().Version() != e.Before.version {
			c.violate(w, "%s follows %d, which its disk does not have, and its books were changed by %T", e.Machine.address,
				e.Before.epoch, e.Message)
		}
	}
	order, is := e.Message.(command)
	if is && order.GetOrder().GetEpoch() < e.Before.epoch && node.Ledger().Version() != e.Before.version {
		c.violate(w, "%s follows %d and its books were changed by %T of %d", e.Machine.address, e.Before.epoch, e.Message,
			order.GetOrder().GetEpoch())
	}
}
