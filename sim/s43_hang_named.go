package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
)

// hangNamed is S43: an attempt ends because of a hang only if its gang hangs. The end names the rank that hangs, or no
// rank. A node that lies can end the attempts that it is part of, and no others.
type hangNamed struct{ rule }

func newHangNamed() *hangNamed { return &hangNamed{rule{"S43 hang-named", on{Drafted}}} }

func (c *hangNamed) Step(w *World, e *Event) {
	for _, a := range e.Draft.Attempts {
		s, token := a.GetEnd().GetStall(), messages.FromToken(a.Token)
		if s == nil || w.books.attempts[token].GetEnd() != nil || slices.ContainsFunc(a.Places, w.isLiar) {
			continue
		}
		w.count("hangs.ended", 1)
		rank, hangs := w.hung[token]
		switch {
		case !hangs:
			c.violate(w, "job %s is ended because of a hang, and it does not hang: %s", a.Job, s.Text)
		case s.Rank >= 0 && rank != anyRank && s.Rank != rank:
			c.violate(w, "job %s hangs because of rank %d, and its end names another one: %s", a.Job, rank, s.Text)
		case s.Rank == rank:
			w.count("hangs.named", 1)
		}
	}
}

// isLiar reports whether the node of a rank lies or has lied.
func (w *World) isLiar(p *messages.Place) bool {
	m := w.machine(p.Node)
	return m != nil && m.lied
}
