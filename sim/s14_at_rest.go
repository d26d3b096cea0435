package sim

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// atRest is S14: with no message in flight, no write pending and no claim, the
// leader's memory is what the store and the machines say. Before that, in a run
// where no word is ever lost, its view is never more than what there is: it
// proposes nothing to a machine that has no room. And a claim ends with the
// ledger that shows what it stood for.
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
		// Parts of devices are the machine's to pair: the view only estimates them.
		if m.Reason == messages.RefusalReason_REFUSAL_REASON_SHORTAGE && !strings.Contains(m.Detail, "device") {
			c.violate(w, "%s was asked for what it has not: %s", e.Process.address, m.Detail)
		}
	case *messages.Reserved:
		c.claimed(w, e.Process)
	}
}

// claims looks for what the leader still claims although it has been shown: by an
// honest machine, for one that lies about its books' versions shows nothing.
func (c *atRest) claims(w *World) {
	p := w.leader()
	if p == nil || p.leader == nil {
		return
	}
	for _, m := range w.machines {
		if n := p.leader.Overdue(m.id); n > 0 && !m.lied {
			c.violate(w, "the leader claims %d attempts on %s that its ledger shows as committed", n, m.address)
		}
	}
}

// claimed reports whether the leader counts on what a machine has just set
// aside for it: the claim stays until the ledger that shows it has come. A device
// that faulted since is not its to know of yet.
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
		c.violate(w, "the leader believes %s to have %+v free, its ledger has %+v", agent.address, seen, has)
	}
}

// Quiet compares everything with everything.
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

// store compares the database with what the checkers saw being written.
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
			c.violate(w, "%s is at revision %d (%v) in the store, %d (%v) was the last write", id,
				record.Revision, record.State, page.record.Revision, page.record.State)
			return
		}
	}
}

// jobs counts what the leader keeps: what has not ended, and what still lacks evidence.
func (c *atRest) jobs(w *World, p *process) {
	want := 0
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		if !page.record.State.Terminal() || len(w.books.attemptsOf(page)) > 0 {
			want++
		}
	}
	if n := p.leader.Requests(); n > want {
		c.violate(w, "the leader remembers %d requests of %d jobs", n, want)
	}
	if got, waiting := p.leader.Living(); got != want || waiting > 0 {
		c.violate(w, "the leader keeps %d jobs, %d of them waiting; the store has %d that are not settled", got,
			waiting, want)
	}
}

// machine compares the leader's view of one machine with its ledger.
func (c *atRest) machine(w *World, p *process, m *machine) {
	free, why, tenants := p.leader.View(m.id)
	books := m.proc.node.Ledger().Capacity()
	if why != "" || tenants != len(m.proc.node.Ledger().Slices()) || !free.Equal(books) {
		c.violate(w, "the leader believes %s to have %+v free, %d tenants, closed %q; its ledger has %+v and %d slices",
			m.address, free, tenants, why, books, len(m.proc.node.Ledger().Slices()))
	}
	has, ledger := messages.FromResources(m.announcement.Total), m.proc.node.Ledger()
	has.MilliGPU = ledger.Books().Total.MilliGPU - int64(len(ledger.WithdrawnGPUs()))*topology.WholeGPU
	if size := p.leader.Size(m.id); size != has {
		c.violate(w, "the leader plans with %s as a machine of %+v, and it is one of %+v", m.address, size, has)
	}
	record := w.books.nodes[string(m.id)]
	if !proto.Equal(record.GetAnnouncement().GetTotal(), m.announcement.Total) {
		c.violate(w, "the store believes %s to have %v", m.address, record.GetAnnouncement().GetTotal())
	}
}
