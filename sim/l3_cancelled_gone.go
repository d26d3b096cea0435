package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// cancelledGone is L3: a cancelled job has no process on a reachable node after its grace and ten seconds. The same
// applies to a job at its time limit, and to a gang with a failed member.
type cancelledGone struct {
	rule
	failed map[topology.Token]instant // when the store first had a member's failure
}

func newCancelledGone() *cancelledGone {
	return &cancelledGone{rule: rule{"L3 cancelled-gone", on{Scanned}}, failed: map[topology.Token]instant{}}
}

// reconnect is the time that a node may take to report again once all is repaired: the next dial, Lead, Hello and
// Welcome.
const reconnect = 20 * time.Second

func (c *cancelledGone) Step(w *World, _ *Event) {
	if w.healed || w.faults.prompt() {
		c.memberFailed(w)
	}
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
			c.timeUp(w, m, t)
			if o.cancelled == 0 {
				continue
			}
			since := max(o.cancelled, c.mended(w))
			if w.engine.now.since(since) > t.grace+10*time.Second {
				c.violate(w, "%v of job %s, cancelled at %s, still runs on %s", t.key, t.job, clockFace(o.cancelled), m.address)
			}
		}
	}
}

// mended returns the time since which nothing delays a Stop, after all faults are repaired. An end must be on disk
// before its Stop, and a leader waits for the answer of a store that never gives one.
func (c *cancelledGone) mended(w *World) instant {
	at := w.healedAt.plus(reconnect)
	if w.store.silent > 0 {
		at = max(at, w.store.silent.plus(w.constants.JournalSilence))
	}
	return at
}

// memberFailed looks for running members of a gang after one of its members has failed.
func (c *cancelledGone) memberFailed(w *World) {
	for _, m := range w.machines {
		if !m.core() {
			continue
		}
		for _, t := range m.launcher.order {
			if t.state != taskRunning || !c.lostMember(w, t.key.Token) {
				continue
			}
			since := c.failed[t.key.Token]
			if w.healed {
				since = max(since, c.mended(w))
			}
			if w.engine.now.since(since) > t.grace+10*time.Second {
				c.violate(w, "%v of job %s still runs on %s, although a member of its gang failed at %s", t.key, t.job, m.address,
					clockFace(c.failed[t.key.Token]))
			}
		}
	}
}

func (c *cancelledGone) lostMember(w *World, t topology.Token) bool {
	for _, p := range w.books.attempts[t].GetPlaces() {
		if p.Exit != nil && (p.Exit.Kind != messages.ExitKind_EXIT_KIND_EXITED || p.Exit.Code != 0) {
			if c.failed[t] == 0 {
				c.failed[t] = w.engine.now
			}
			return true
		}
	}
	return false
}

// timeUp checks a time limit. Its leader counts the limit by its own clock, which may run slower than the world's. A
// new leader may count it from its takeover at the latest. A limit that was lowered below the spent time holds from the
// change.
func (c *cancelledGone) timeUp(w *World, m *machine, t *task) {
	page := w.books.jobs[t.job]
	if page == nil || page.limit == 0 {
		return
	}
	limit := page.limit
	if p := w.leader(); p != nil {
		limit = max(limit, p.clock.lasts(limit))
	}
	since := max(t.spawnedAt, w.ledSince, c.mended(w))
	if w.engine.now.since(page.limitSince) > t.grace+10*time.Second &&
		w.engine.now.since(since) > limit+t.grace+10*time.Second {
		c.violate(w, "%v of job %s still runs on %s, %s after its time limit of %s", t.key, t.job, m.address,
			w.engine.now.since(since)-limit, limit)
	}
}
