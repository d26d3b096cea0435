package sim

import "time"

// cancelledGone is L3: a cancelled job has no process on a machine that can be
// reached, after its grace and ten seconds. The same for one whose time is up.
type cancelledGone struct{ notQuiet }

func newCancelledGone() *cancelledGone { return &cancelledGone{} }

func (*cancelledGone) Name() string         { return "L3 cancelled-gone" }
func (*cancelledGone) Watches() []EventKind { return []EventKind{Scanned} }

// reconnect is how long a machine may take to be heard again once all is healed:
// the next dial, Lead, Hello and Welcome.
const reconnect = 20 * time.Second

func (c *cancelledGone) Step(w *World, _ *Event) {
	if !w.healed {
		return
	}
	for _, m := range w.machines {
		if !m.core() {
			continue
		}
		for _, t := range m.launcher.order {
			o := w.client.byID[t.job]
			if t.state != taskRunning || o == nil {
				continue
			}
			c.timeUp(w, m, t, o)
			if o.cancelled == 0 {
				continue
			}
			since := later(o.cancelled, w.healedAt.plus(reconnect))
			if w.engine.now.since(since) > t.grace+10*time.Second {
				w.violate(c.Name(), "%v of %s, cancelled at %s, still runs on %s", t.key, t.job, clockFace(o.cancelled), m.address)
			}
		}
	}
}

// timeUp looks at a time limit. A new leader may count it from its takeover at the latest.
func (c *cancelledGone) timeUp(w *World, m *machine, t *task, o *Order) {
	limit := time.Duration(o.spec.TimeLimitMs) * time.Millisecond
	since := later(t.spawnedAt, later(w.ledSince, w.healedAt.plus(reconnect)))
	if limit > 0 && w.engine.now.since(since) > limit+t.grace+10*time.Second {
		w.violate(c.Name(), "%v of %s still runs on %s, %s after its limit of %s", t.key, t.job, m.address, w.engine.now.since(since)-limit, limit)
	}
}
