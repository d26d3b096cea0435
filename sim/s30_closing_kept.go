package sim

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
)

// closingKept is S30: no job without a time limit starts on a node with a scheduled drain, and no job whose limit ends
// after the drain begins. Jobs that were admitted before the drain or the new limit was on disk are exempt for the
// decision window. If leaders may be delayed, the exemption lasts a minute, until the COMMIT is passed to the Journal.
type closingKept struct {
	rule
	ordered map[string]instant // by node: since when its record has this drain time
	limited map[string]instant // by job: since when its record has this limit
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

// window returns the time for which an earlier admission may still be decided.
func (c *closingKept) window(w *World) time.Duration {
	if !w.faults.prompt() {
		return time.Minute
	}
	return w.constants.ReservationTTL + 2*time.Second
}

// away returns why a COMMIT of a job on a closing node is not judged.
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

// Step notes each write, and checks each attempt that is stored.
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
		for _, p := range a.Places { // an heir ends when a node closes that it keeps
			if n := w.books.nodes[p.Node]; n.GetClosing() != nil && isNewOn(a, p.Node) &&
				s.decided.since(c.ordered[n.Id]) > c.window(w) &&
				c.away(w, s.proc.host, s.job.Id, s.decided) == "" {
				c.judge(w, s, a, n)
			}
		}
	}
}

// judge compares the time until a node closes with a job's limit.
func (c *closingKept) judge(w *World, s *stored, a *messages.AttemptRecord, n *messages.NodeRecord) {
	limit := s.job.Spec.GetTimeLimitMs()
	left := n.ClosesUnixMs - a.CommittedUnixMs
	if limit == 0 || limit+s.job.Spec.GetStop().GetGraceMs() > left {
		c.violate(w, "job %s, with a limit of %d ms, is committed as attempt %d on %s, which is drained in %d ms",
			s.job.Id, limit,
			a.Run, n.Id, left)
	}
}
