package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/yi-json/synapse/topology"
)

// idleNamed is L12: reserved capacity is idle only for a waiting job, and only until another job ends. A job with a
// start guarantee waits for an allocation on one of its nodes. L2 checks capacity that is not reserved, and L9 checks
// the time of a guarantee. The checker reads the ledgers of the nodes. If messages are lost or writes wait, information
// is late, so the checker judges only healthy times. By then nobody holds or cancels any more, so calm runs find most
// bugs.
//
// Whatever is reserved, one more rule applies. If no job runs at all, a job that fits and may start does so within a
// minute. Waiting for close nodes is pointless then: if any domain could ever hold the job, it holds the job now. This
// also applies with queues.
type idleNamed struct {
	rule
	idle map[string]instant // since when a reservation has had no reason, by job
	lone map[string]instant // since when nothing has run, by a job that could start
	seen *headRuns          // what is known of waiting jobs; it judges nothing
}

// namedWithin is the time that information may take: an end, a hold or a cancel to the Scheduler, and a start to a
// node.
const namedWithin = 30 * time.Second

func newIdleNamed() *idleNamed {
	return &idleNamed{rule: rule{"L12 idle-named", on{Sent, Stored, Scanned}}, idle: map[string]instant{},
		lone: map[string]instant{}, seen: newHeadRuns()}
}

// isWell reports whether no information is late.
func isWell(w *World) bool {
	calm := w.faults.prompt() && w.leadsLong() && !w.opts.Plain
	return calm || w.healed &&
		w.engine.now.since(max(w.healedAt, w.ledSince)) >= w.constants.NodeBackoffCap+20*time.Second
}

func (c *idleNamed) Step(w *World, e *Event) {
	if w.opts.Planner != nil { // a custom planner has its own order
		return
	}
	if e.Kind != Scanned {
		c.seen.note(w, e)
		return
	}
	p := w.leader()
	// Without waiting jobs no pass runs, and reservations harm nobody.
	if p == nil || p.leader == nil || w.books.queued == 0 || !isWell(w) {
		clear(c.idle)
		clear(c.lone)
		return
	}
	c.idleHours(w, p)
	c.keptInVain(w, p)
}

// idleHours looks for a job that could run on nodes that are all idle.
func (c *idleNamed) idleHours(w *World, p *process) {
	if slices.ContainsFunc(w.machines, func(m *machine) bool {
		return m.core() && m.proc.node != nil && len(m.proc.node.Ledger().Allocations()) > 0
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
			c.violate(w, "nothing has run since %s, although this job could: %s", clockFace(c.lone[id]), w.whyWaits(page))
			return
		}
	}
}

// keptInVain looks for capacity that is reserved for a job that does not wait, or that could start on it.
func (c *idleNamed) keptInVain(w *World, p *process) {
	// by job: reserved on any node, and on nodes that still lack the capacity
	kept, lacking := map[string]bool{}, map[string]bool{}
	for _, m := range w.machines {
		if !m.core() || !w.open(m) || m.proc == nil || m.proc.dead || m.proc.node == nil {
			continue
		}
		left := m.proc.node.Ledger().Capacity().Less(w.books.sparesOn(string(m.id), ""))
		for _, r := range w.reservedOn(p, m) { // an earlier guarantee gets the free capacity first
			kept[r.job] = true
			if r.firm {
				left = left.Less(r.amount)
			}
			if !r.firm || lacksGPU(left) || left.MilliCPU < 0 || left.MemoryBytes < 0 {
				lacking[r.job] = true
			}
		}
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
			c.violate(w, "nodes are reserved for job %s, which does not wait", id)
			return
		case w.engine.now.since(c.idle[id]) > namedWithin:
			c.violate(w, "all nodes reserved for job %s have been free for %s: %s", id, namedWithin, w.whyWaits(page))
			return
		}
	}
}

// reservation holds the capacity that the leader reserves on a node for a job.
type reservation struct {
	job    string
	order  uint64 // of its guarantee
	amount topology.Resources
	firm   bool
}

// reservedOn lists the reservations on a node in the order of the guarantees.
func (w *World) reservedOn(p *process, m *machine) (all []reservation) {
	p.leader.EachKept(m.id, func(job topology.JobID, amount topology.Resources, firm bool) {
		r := reservation{job: string(job), amount: amount, firm: firm}
		if page := w.books.jobs[r.job]; page != nil {
			r.order = page.record.GetPromise().GetOrder()
		}
		all = append(all, r)
	})
	slices.SortFunc(all, func(a, b reservation) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.job, b.job))
	})
	return all
}

// isPatient reports whether a job may still wait for its preferred level. Other domains are reserved for a later start.
func (w *World) isPatient(page *jobPage) bool {
	patience := time.Duration(page.record.Spec.GetTopology().GetPatienceMs()) * time.Millisecond
	return w.engine.now.since(page.since) <= patience
}
