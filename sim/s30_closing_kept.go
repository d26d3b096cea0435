package sim

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
)

// closingKept is S30: on a machine that is to be drained later nothing begins that has no time limit, or one that is
// over too late. What was admitted before the order was on disk, or before the job's limit was another one, was sooner:
// it has its decision window, and where leaders are held up a minute, until the COMMIT is handed to the Journal.
type closingKept struct {
	rule
	ordered map[string]instant // by machine: since when its record says that it closes then
	limited map[string]instant // by job: since when its record has that limit
}

func newClosingKept() *closingKept {
	return &closingKept{
		rule: rule{"S30 closing-kept", on{Stored}}, ordered: map[string]instant{}, limited: map[string]instant{},
	}
}

func (c *closingKept) clauses() []clause {
	closes := func(w *World, page *jobPage) bool {
		return page.queued && w.leading != nil && slices.ContainsFunc(sortedKeys(w.books.nodes), func(id string) bool {
			return w.books.nodes[id].GetClosing() != nil && w.engine.now.since(c.ordered[id]) > c.window(w)
		})
	}
	return []clause{{about: closes, away: func(w *World, page *jobPage) string {
		return c.away(w, w.leading, page.record.Id, w.engine.now)
	}}}
}

// window is how long what was admitted before an order may take until its COMMIT is decided.
func (c *closingKept) window(w *World) time.Duration {
	if !w.faults.prompt() {
		return time.Minute
	}
	return w.constants.ReservationTTL + 2*time.Second
}

// away is why a COMMIT of a job on a machine that closes is not judged.
func (c *closingKept) away(w *World, h *schedulerHost, job string, decided instant) string {
	switch window := c.window(w); {
	case h == nil || h != w.leading:
		return "its scheduler leads no more"
	case h.jumped > w.ledSince || h.jumped >= decided:
		return "the leader's clock jumped since it took over"
	case c.limited[job] > 0 && decided.since(c.limited[job]) <= window:
		return "its limit was changed a moment ago"
	}
	return ""
}

// Step notes what comes to disk, and looks at each run that does.
func (c *closingKept) Step(w *World, e *Event) {
	s := e.Stored
	if n := s.node; n != nil && (s.nodeWas == nil || s.nodeWas.ClosesUnixMs != n.ClosesUnixMs) {
		c.ordered[n.Id] = w.engine.now
	}
	if s.job == nil {
		return
	}
	if s.jobWas != nil && s.jobWas.Spec.TimeLimitMs != s.job.Spec.TimeLimitMs {
		c.limited[s.job.Id] = w.engine.now
	}
	for _, a := range s.committed() {
		for _, p := range a.Places {
			if n := w.books.nodes[p.Node]; n.GetClosing() != nil && s.decided.since(c.ordered[n.Id]) > c.window(w) &&
				c.away(w, s.proc.host, s.job.Id, s.decided) == "" {
				c.judge(w, s, a, n)
			}
		}
	}
}

// judge holds what is left until a machine closes against a job's limit.
func (c *closingKept) judge(w *World, s *stored, a *messages.AttemptRecord, n *messages.NodeRecord) {
	limit := s.job.Spec.GetTimeLimitMs()
	left := n.ClosesUnixMs - a.CommittedUnixMs
	if limit == 0 || limit+s.job.Spec.GetStop().GetGraceMs() > left {
		c.violate(w, "%s, with a limit of %d ms, is committed as run %d on %s, which closes in %d ms", s.job.Id, limit,
			a.Run, n.Id, left)
	}
}
