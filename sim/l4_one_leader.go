package sim

import "time"

// oneLeader is L4: one leader within two leases, admitting five seconds later.
// Who leads is decided outside of the actors, so what is checked of them is
// that the new leader is open: it answers a question, and the head of the queue
// runs (L2).
type oneLeader struct {
	notQuiet
	without instant // since when nobody leads; 0: somebody does
}

func newOneLeader() *oneLeader { return &oneLeader{} }

func (*oneLeader) Name() string         { return "L4 one-leader" }
func (*oneLeader) Watches() []EventKind { return []EventKind{Scanned} }

func (c *oneLeader) Step(w *World, _ *Event) {
	if !w.healed {
		return
	}
	switch {
	case w.leader() != nil:
		c.without = 0
	case c.without == 0:
		c.without = w.engine.now
	case w.engine.now.since(c.without) > 2*w.constants.Lease+5*time.Second:
		w.violate(c.Name(), "nobody leads since %s", clockFace(c.without))
	}
	if w.engine.now.since(w.healedAt) < reconnect || w.engine.now.since(w.ledSince) < reconnect {
		return
	}
	for _, path := range sortedKeys(w.client.asks) {
		if a := w.client.asks[path]; w.engine.now.since(a.since) > 2*time.Minute && w.engine.now.since(w.healedAt) > 2*time.Minute {
			w.violate(c.Name(), "nobody answers %s since %s", describe(a.message), clockFace(a.since))
			return
		}
	}
}
