package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// reservationsEnd is L1: a reservation ends within its TTL and two round trips. If no message is lost, it ends sooner,
// because a given-up attempt is aborted on every node that was asked. If passes of the leader are slow, the Abort may
// wait for two of them.
type reservationsEnd struct {
	rule
	aborted map[topology.Token]instant // when the first Abort left
}

func newReservationsEnd() *reservationsEnd {
	return &reservationsEnd{rule: rule{"L1 reservations-end", on{Sent, Scanned}}, aborted: map[topology.Token]instant{}}
}

func (c *reservationsEnd) Step(w *World, e *Event) {
	if e.Kind == Sent {
		if m, is := e.Message.(*messages.Abort); is {
			if t := messages.FromToken(m.Order.GetToken()); c.aborted[t] == 0 {
				c.aborted[t] = w.engine.now
			}
		}
		return
	}
	if w.faults.calm() {
		c.givenUp(w)
	}
	for _, m := range w.machines {
		p := m.proc
		if p == nil || p.node == nil || p.paused || !w.healed || w.engine.now.since(w.healedAt) < 2*time.Second {
			continue
		}
		for _, s := range p.node.Ledger().Allocations() {
			if s.State == topology.AllocationReserved && int64(p.Now())-s.ExpiresAt > int64(100*time.Millisecond) {
				c.violate(w, "%s still has a reservation of %v of job %s, %s after it should have expired",
					m.address, s.Token, s.Job,
					time.Duration(int64(p.Now())-s.ExpiresAt))
			}
		}
	}
}

// givenUp looks for reservations of attempts that were aborted a while ago.
func (c *reservationsEnd) givenUp(w *World) {
	within := 2 * time.Second
	if w.faults.byName["slow-pass"] != nil {
		within += 2 * w.draw.Busy
	}
	for _, m := range w.machines {
		for _, s := range m.slices() {
			since, given := c.aborted[s.Token]
			if given && s.State == topology.AllocationReserved && w.engine.now.since(since) > within {
				c.violate(w, "%s still has a reservation of %v of job %s, which was aborted on other nodes at %s",
					m.address, s.Token, s.Job, clockFace(since))
			}
		}
	}
}
