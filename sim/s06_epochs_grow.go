package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// epochsGrow is S6. Every leader's epoch is higher than the one before. A node never returns to a lower epoch, not even
// by a restart, and an order with a lower epoch changes nothing there.
//
// A node whose disk fails may follow a leader before the epoch is on its disk. Such a node starts no work for this
// leader. Only a restart, which loses that epoch, may return it to the one before.
//
// Nothing is stored for a deposed leader. A process that learns this from the store stops leading, unless the answer
// came after the process had given up waiting, which happens only with a store in trouble.
type epochsGrow struct {
	rule
	led     uint64
	leader  *process          // the last leader
	highest map[string]uint64 // by machine ID: the highest epoch that a ready Node had accepted and saved
	heard   map[int]uint64    // by process: the highest epoch that it had accepted
}

func newEpochsGrow() *epochsGrow {
	return &epochsGrow{rule: rule{"S6 epochs-grow", on{Led, Handled, Stored, Scanned, Quarantined}},
		highest: map[string]uint64{}, heard: map[int]uint64{}}
}

func (c *epochsGrow) Step(w *World, e *Event) {
	switch e.Kind {
	case Led:
		if e.Epoch <= c.led {
			c.violate(w, "%s leads with epoch %d after epoch %d", e.Process.address, e.Epoch, c.led)
		}
		c.led, c.leader = e.Epoch, e.Process
	case Quarantined:
		// The record with the fence was unreadable. The node then starts again with any epoch, as designed.
		delete(c.highest, e.Process.machine.machineID)
	case Handled:
		c.onHandled(w, e)
	case Stored:
		if e.Stored.epoch < c.led {
			c.violate(w, "a write of epoch %d was stored, although epoch %d leads", e.Stored.epoch, c.led)
		}
		if e.Stored.proc != c.leader {
			c.violate(w, "a write of %s was stored, although %s leads with the same epoch",
				e.Stored.proc.holder(), c.leader.holder())
		}
	case Scanned:
		if w.faults.byName["store-stall"] != nil || w.faults.byName["store-error"] != nil {
			return
		}
		for _, h := range w.schedulers {
			if p := h.proc; p != nil && !p.paused && p.deposedAt > 0 && w.engine.now.since(p.deposedAt) > 2*time.Second {
				c.violate(w, "%s learned at %s that it no longer leads, and continues", p.address, clockFace(p.deposedAt))
			}
		}
	}
}

// restored starts again with the store's epoch, because a copy may have had an earlier leader. Nodes do not return to
// it.
func (c *epochsGrow) restored(w *World) { c.led = w.store.kept.Epoch() }

func (c *epochsGrow) onHandled(w *World, e *Event) {
	node := e.Process.node
	if node.Ready() {
		id, now := e.Machine.machineID, node.Epoch()
		if most := max(c.highest[id], c.heard[e.Process.serial]); now < most {
			c.violate(w, "%s accepted epoch %d but follows epoch %d", e.Machine.address, most, now)
		}
		c.heard[e.Process.serial] = now
		if node.Sworn() {
			c.highest[id] = now
		}
	}
	switch e.Message.(type) {
	case *messages.Reserve, *messages.Commit, *messages.Start:
		if !e.Before.sworn && node.Ledger().Version() != e.Before.version {
			c.violate(w, "%s follows epoch %d, which is not on its disk, and its ledger was changed by %T", e.Machine.address,
				e.Before.epoch, e.Message)
		}
	}
	order, is := e.Message.(command)
	if is && order.GetOrder().GetEpoch() < e.Before.epoch && node.Ledger().Version() != e.Before.version {
		c.violate(w, "%s follows epoch %d, and its ledger was changed by %T of epoch %d",
			e.Machine.address, e.Before.epoch, e.Message,
			order.GetOrder().GetEpoch())
	}
}
