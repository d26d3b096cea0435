package sim

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/topology"
)

// idleNamed is L12: room that is kept is idle for somebody, and until something ends. What is kept, is kept for a job
// that waits; and who has a firm promise waits for something that is on one of its machines. L2 sees to the room that
// nobody keeps, and L9 to the time that goes with a promise. What machines have is taken from their own ledgers. Where
// words are lost or writes wait, news is late, and only what is well again is looked at; by then nobody holds or
// cancels any more, so most of what can be found is found in calm runs.
//
// Whatever is kept for whom: if nothing at all runs, a job that fits and may start does so within a minute. No place
// close together is worth a wait then, for if one could ever hold the job, it holds the job now. It is so with queues
// too.
type idleNamed struct {
	rule
	idle map[string]instant // since when there has been no reason, by the job for which room is kept
	lone map[string]instant // since when nothing has run, by the job that could
	seen *headRuns          // what is known of jobs that wait; it judges nothing
}

// namedWithin is how long news may take: an end, a hold or a cancel to the Scheduler, and a start to a machine.
const namedWithin = 30 * time.Second

func newIdleNamed() *idleNamed {
	return &idleNamed{rule: rule{"L12 idle-named", on{Sent, Stored, Scanned}}, idle: map[string]instant{},
		lone: map[string]instant{}, seen: newHeadRuns()}
}

// isWell reports whether no news is late.
func isWell(w *World) bool {
	calm := w.faults.prompt() && w.leadsLong() && !w.opts.Plain
	return calm || w.healed &&
		w.engine.now.since(max(w.healedAt, w.ledSince)) >= w.constants.BenchCap+20*time.Second
}

func (c *idleNamed) Step(w *World, e *Event) {
	if w.opts.Planner != nil { // whoever brings one has an order of its own
		return
	}
	if e.Kind != Scanned {
		c.seen.note(w, e)
		return
	}
	p := w.leader()
	// Where nobody waits no pass comes, and what is kept is in nobody's way.
	if p == nil || p.leader == nil || w.books.queued == 0 || !isWell(w) {
		clear(c.idle)
		clear(c.lone)
		return
	}
	c.idleHours(w, p)
	c.keptInVain(w, p)
}

// idleHours looks for a job that could run on machines that are all idle.
func (c *idleNamed) idleHours(w *World, p *process) {
	if slices.ContainsFunc(w.machines, func(m *machine) bool {
		return m.core() && m.proc.node != nil && len(m.proc.node.Ledger().Slices()) > 0
	}) {
		clear(c.lone)
		return
	}
	room := func(m *machine) (topology.Capacity, bool) { return m.empty(), w.isServing(p, m) }
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		if !c.seen.waits(w, page) || !c.seen.trulyWaits(w, page) || page.record.Spec.GetArray() != nil ||
			w.isPatient(page) || c.seen.barred(w, page) != "" || !w.fits(page.record.Spec, room) {
			delete(c.lone, id)
			continue
		}
		if c.lone[id] < page.since {
			c.lone[id] = w.engine.now
		}
		if w.engine.now.since(c.lone[id]) > time.Minute {
			c.violate(w, "nothing has run since %s though this job could: %s", clockFace(c.lone[id]), w.whyWaits(page))
			return
		}
	}
}

// keptInVain looks for room that is kept for somebody who does not wait, or who could start on it.
func (c *idleNamed) keptInVain(w *World, p *process) {
	kept, lacking := map[string]bool{}, map[string]bool{} // by job: on any machine, and where there is no room for it yet
	for _, m := range w.machines {
		if !m.core() || !w.open(m) || m.proc == nil || m.proc.dead || m.proc.node == nil {
			continue
		}
		p.leader.EachKept(m.id, func(job topology.JobID, amount topology.Resources, firm bool) {
			kept[string(job)] = true
			left := m.proc.node.Ledger().Capacity().Less(amount)
			if !firm || lacksGPU(left) || left.MilliCPU < 0 || left.MemoryBytes < 0 {
				lacking[string(job)] = true
			}
		})
	}
	for _, id := range sortedKeys(c.idle) {
		if !kept[id] {
			delete(c.idle, id)
		}
	}
	for _, id := range sortedKeys(kept) {
		page := w.books.jobs[id]
		waits := page != nil && page.queued
		switch {
		case waits && (lacking[id] || page.record.NotBeforeUnixMs > 0 || w.books.owes(page) || w.isPatient(page)):
			delete(c.idle, id)
		case c.idle[id] == 0:
			c.idle[id] = w.engine.now
		case w.engine.now.since(c.idle[id]) > namedWithin && !waits:
			c.violate(w, "room is kept for %s, which does not wait", id)
			return
		case w.engine.now.since(c.idle[id]) > namedWithin:
			c.violate(w, "all that is kept for %s has been free for %s: %s", id, namedWithin, w.whyWaits(page))
			return
		}
	}
}

// isPatient reports whether a job may still wait for its preferred level: any other place is kept for later.
func (w *World) isPatient(page *jobPage) bool {
	patience := time.Duration(page.record.Spec.GetTopology().GetPatienceMs()) * time.Millisecond
	return w.engine.now.since(page.since) <= patience
}
