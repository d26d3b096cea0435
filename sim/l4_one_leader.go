package sim

import (
	"slices"
	"time"
)

// oneLeader is L4: within two leases there is one leader, which admits jobs five seconds later. It answers requests,
// and the head of the queue runs (L2). There is no more than one leader: the former leader has ended when the store
// accepts another one. Two exceptions may still believe that they lead: a leader that was not running at that time, and
// a leader whose lease the database forgot.
type oneLeader struct {
	rule
	without instant // since when there is no leader; 0: there is one
}

func newOneLeader() *oneLeader { return &oneLeader{rule: rule{"L4 one-leader", on{Scanned, Led}}} }

func (c *oneLeader) Step(w *World, e *Event) {
	if e.Kind == Led {
		c.onLed(w, e.Process)
		return
	}
	if !w.healed {
		return
	}
	switch {
	case w.leader() != nil:
		c.without = 0
	case c.without == 0:
		c.without = w.engine.now
	case w.engine.now.since(c.without) > 2*w.constants.Lease+5*time.Second:
		c.violate(w, "there has been no leader since %s", clockFace(c.without))
	}
	if w.engine.now.since(w.healedAt) < reconnect || w.engine.now.since(w.ledSince) < reconnect {
		return
	}
	for _, path := range sortedKeys(w.client.asks) {
		// The answer that every UID is taken counts too, until the files kept under the UIDs are old.
		a, now := w.client.asks[path], w.engine.now
		if now.since(max(a.since, a.full)) > 2*time.Minute && now.since(w.healedAt) > 2*time.Minute {
			c.violate(w, "request %s has had no answer since %s", describe(a.message), clockFace(a.since))
			return
		}
	}
}

func (c *oneLeader) onLed(w *World, next *process) {
	for _, h := range w.schedulers {
		p := h.proc
		if p == nil || p == next || p.campaign == nil || p.campaign.reign == nil || p.campaign.held() ||
			slices.Contains(w.store.row.lost, p.campaign.reign.Epoch) {
			continue
		}
		c.violate(w, "%s leads, but %s does not know that its lease has ended", next.address, p.address)
	}
}
