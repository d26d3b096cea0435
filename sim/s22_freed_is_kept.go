package sim

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// freedIsKept is S22: capacity that is being freed for a job goes to no other job. On a node that a guarantee with
// victims reserves, the reserved capacity and all jobs without an end must fit together.
type freedIsKept struct{ rule }

func newFreedIsKept() *freedIsKept { return &freedIsKept{rule{"S22 freed-is-kept", on{Stored}}} }

func (c *freedIsKept) clauses() []clause { return []clause{{about: isFreed, away: c.away}} }

// isFreed reports whether capacity is being freed for a job.
func isFreed(w *World, page *jobPage) bool {
	g := w.books.given[page.record.Id]
	return isShared(w, page) && g != nil && len(g.promise.Victims) > 0 && (g.excuse == "" || g.waived != "")
}

// away returns why the capacity freed for a job is not judged now.
func (*freedIsKept) away(w *World, page *jobPage) string {
	return w.books.given[page.record.Id].waived
}

func (c *freedIsKept) Step(w *World, e *Event) {
	if w.books.queues == nil {
		return
	}
	for _, a := range e.Stored.committed() {
		for _, id := range sortedKeys(w.books.given) {
			g := w.books.given[id]
			if id == a.Job || len(g.promise.Victims) == 0 {
				continue
			}
			for _, node := range nodesOf(g.promise) {
				if !isOn(a, node) || !g.crowds(w, a, node, func(o *messages.AttemptRecord) bool {
					return o.End == nil && !g.stops(o) && !w.hasLeft(o, node)
				}) {
					continue
				}
				if g.lookAround(w); g.excuse == "" && c.away(w, w.books.jobs[id]) == "" {
					c.violate(w, "job %s is committed on %s, which is being freed for job %s", a.Job, node, id)
					return
				}
			}
		}
	}
}

// hasLeft reports whether a node has confirmed that an attempt has left it, even if the store does not know that yet.
func (w *World) hasLeft(a *messages.AttemptRecord, node string) bool {
	p := w.machine(node).proc
	if p == nil || p.node == nil {
		return true // unknown
	}
	s := p.node.Ledger().Allocation(messages.FromToken(a.Token))
	return s == nil || s.State == topology.AllocationEnded
}

// stops reports whether an attempt is a victim of the guarantee.
func (g *given) stops(a *messages.AttemptRecord) bool {
	for _, v := range g.promise.Victims {
		if messages.FromToken(v.Token) == messages.FromToken(a.Token) {
			return true
		}
	}
	return false
}
