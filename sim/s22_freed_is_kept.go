package sim

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// freedIsKept is S22: what is being freed for a job is given to nobody else. Where a promise with victims keeps room of
// a machine, that and what has no end there fit into it, whoever is committed.
type freedIsKept struct{ rule }

func newFreedIsKept() *freedIsKept { return &freedIsKept{rule{"S22 freed-is-kept", on{Stored}}} }

func (c *freedIsKept) clauses() []clause { return []clause{{about: isFreed, away: c.away}} }

// isFreed reports whether room is being freed for a job.
func isFreed(w *World, page *jobPage) bool {
	g := w.books.given[page.record.Id]
	return isShared(w, page) && g != nil && len(g.promise.Victims) > 0 && (g.excuse == "" || g.waived != "")
}

// away is why what is freed for a job is not judged now.
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
					c.violate(w, "%s is committed on %s, which is being freed for %s", a.Job, node, id)
					return
				}
			}
		}
	}
}

// hasLeft reports whether a machine has evidence that nothing of an attempt is left there, though the store may not
// know it yet.
func (w *World) hasLeft(a *messages.AttemptRecord, node string) bool {
	p := w.machine(node).proc
	if p == nil || p.node == nil {
		return true // nobody can say
	}
	s := p.node.Ledger().Slice(messages.FromToken(a.Token))
	return s == nil || s.State == topology.SliceOver
}

// stops reports whether an attempt is stopped for a promise.
func (g *given) stops(a *messages.AttemptRecord) bool {
	for _, v := range g.promise.Victims {
		if messages.FromToken(v.Token) == messages.FromToken(a.Token) {
			return true
		}
	}
	return false
}
