package sim

import "github.com/yi-json/synapse/messages"

// idle is L8: when there is nothing to do, only heartbeats are sent and nothing is written.
type idle struct {
	rule
	beats int
}

func newIdle() *idle { return &idle{rule: rule{"L8 idle", on{Sent, Stored}}} }

func (c *idle) Step(w *World, e *Event) {
	if !w.idling || e.Process != nil && e.Process.machine != nil && !e.Process.machine.core() {
		return // a node that is cut off for ever sends to nobody
	}
	if e.Kind == Stored {
		c.violate(w, "%s writes to the store although there is nothing to do", e.Process.address)
		return
	}
	switch m := e.Message.(type) {
	case *messages.Heartbeat:
		if m.Ledger != nil {
			c.violate(w, "%s still sends its ledger although nothing changes: %v", e.Process.address, m.Ledger)
		}
		c.beats++
		if most := len(w.machines) * (2 + int(restFor/w.constants.Heartbeat)); c.beats > most {
			c.violate(w, "the world sent %d heartbeats of %d nodes within %s", c.beats, len(w.machines), restFor)
		}
	case *messages.HeartbeatAck:
	default:
		from := clientAddress
		if e.Process != nil {
			from = e.Process.address
		}
		c.violate(w, "%s sends %s to %s although there is nothing to do", from, describe(m), e.Path)
	}
}
