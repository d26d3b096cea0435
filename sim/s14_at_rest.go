package sim

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// atRest is S14: without messages in flight, pending writes and claims, the leader's memory agrees with the store and
// the nodes. In a run without lost messages, a stricter rule applies at all times: the leader's view never exceeds the
// true capacity, so no node gets a request for more than it has. A claim ends with the ledger that includes it.
type atRest struct{ rule }

func newAtRest() *atRest { return &atRest{rule: rule{"S14 at-rest", on{Sent, Scanned}}} }

func (c *atRest) Step(w *World, e *Event) {
	if e.Kind == Scanned {
		c.claims(w)
		return
	}
	if !w.faults.calm() || w.elections > 1 {
		return
	}
	switch m := e.Message.(type) {
	case *messages.Refused:
		// The node alone pairs parts of GPUs. The view only estimates them.
		if m.Reason == messages.RefusalReason_REFUSAL_REASON_SHORTAGE && !strings.Contains(m.Detail, "device") {
			c.violate(w, "%s got a request for more than it has: %s", e.Process.address, m.Detail)
		}
	case *messages.Reserved:
		c.claimed(w, e.Process)
	}
}

// claims looks for claims that outlive the ledger which includes them. It ignores nodes that lie about ledger versions.
func (c *atRest) claims(w *World) {
	p := w.leader()
	if p == nil || p.leader == nil {
		return
	}
	for _, m := range w.machines {
		if n := p.leader.Overdue(m.id); n > 0 && !m.lied {
			c.violate(w, "the leader still claims %d attempts on %s that the node's ledger shows as committed", n, m.address)
		}
	}
}

// claimed checks that the leader still counts a reservation that a node has just made. The claim must stay until the
// ledger with the reservation arrives. The leader may not know yet of a GPU that failed since.
func (c *atRest) claimed(w *World, agent *process) {
	p := w.leader()
	if p == nil || p.leader == nil || agent.machine == nil || agent.node == nil {
		return
	}
	seen, _, _ := p.leader.View(agent.machine.id)
	has := agent.node.Ledger().Capacity()
	unheard := len(agent.node.Ledger().WithdrawnGPUs()) - p.leader.Withdrawn(agent.machine.id)
	if seen.MilliCPU > has.MilliCPU || seen.MemoryBytes > has.MemoryBytes ||
		seen.MilliGPU() > has.MilliGPU()+int64(max(unheard, 0))*topology.WholeGPU {
		c.violate(w, "the leader's view of %s has %+v free, but its ledger has %+v", agent.address, seen, has)
	}
}

// Quiet compares all views with each other.
func (c *atRest) Quiet(w *World) {
	p := w.leader()
	if p == nil || p.leader == nil {
		c.violate(w, "nobody leads")
		return
	}
	c.store(w)
	c.jobs(w, p)
	for _, m := range w.machines {
		if w.open(m) && !w.engine.halted {
			c.machine(w, p, m)
		}
	}
}

// store compares the database with the writes that the checkers saw.
func (c *atRest) store(w *World) {
	for _, id := range w.books.ids {
		if w.unreadable(id) {
			continue
		}
		record, _, err := w.store.kept.Job(topology.JobID(id))
		if err != nil {
			c.violate(w, "%s: %v", id, err)
			return
		}
		page := w.books.jobs[id]
		if record.Revision != page.record.Revision || record.State != page.record.State {
			c.violate(w, "job %s is at revision %d (%v) in the store, but %d (%v) was the last write", id,
				record.Revision, record.State, page.record.Revision, page.record.State)
			return
		}
	}
}

// jobs counts the jobs that the leader must keep: jobs that have not ended and jobs that lack an exit confirmation.
func (c *atRest) jobs(w *World, p *process) {
	want := 0
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		if !page.record.State.Terminal() || len(w.books.attemptsOf(page)) > 0 {
			want++
		}
	}
	if n := p.leader.Requests(); n > want {
		c.violate(w, "the leader keeps %d requests of %d jobs", n, want)
	}
	if got, waiting := p.leader.Living(); got != want || waiting > 0 {
		c.violate(w, "the leader keeps %d jobs, %d of them waiting; the store has %d unsettled jobs", got,
			waiting, want)
	}
}

// machine compares the leader's view of one node with its ledger.
func (c *atRest) machine(w *World, p *process, m *machine) {
	free, why, tenants := p.leader.View(m.id)
	books := m.proc.node.Ledger().Capacity()
	if p.leader.Resting(m.id) { // L2 checks that it rests only while no job needs it
		why = ""
	}
	if why != "" || tenants != len(m.proc.node.Ledger().Allocations()) || !free.Equal(books) {
		c.violate(w, "the view of %s has %+v free, %d tenants, unschedulable %q; its ledger has %+v and %d allocations",
			m.address, free, tenants, why, books, len(m.proc.node.Ledger().Allocations()))
	}
	has, ledger := messages.FromResources(m.announcement.Total), m.proc.node.Ledger()
	has.MilliGPU = ledger.Books().Total.MilliGPU - int64(len(ledger.WithdrawnGPUs()))*topology.WholeGPU
	if size := p.leader.Size(m.id); size != has {
		c.violate(w, "the leader plans node %s with a total of %+v, but the node has %+v", m.address, size, has)
	}
	record := w.books.nodes[string(m.id)]
	if !proto.Equal(record.GetAnnouncement().GetTotal(), m.announcement.Total) {
		c.violate(w, "the store's record of %s has %v", m.address, record.GetAnnouncement().GetTotal())
	}
}
