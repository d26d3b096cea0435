package sim

import (
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
	window := w.constants.ReservationTTL + 2*time.Second
	if !w.faults.prompt() {
		window = time.Minute
	}
	late := func(since instant) bool { return s.decided.since(since) > window }
	if w.faults.byName["clock-jump"] != nil || !late(c.limited[s.job.Id]) || !late(w.ledSince) {
		return
	}
	for _, a := range s.committed() {
		for _, p := range a.Places {
			if n := w.books.nodes[p.Node]; n.GetClosing() != nil && late(c.ordered[n.Id]) {
				c.judge(w, s.job, a, n)
			}
		}
	}
}

func (c *closingKept) judge(w *World, job *messages.JobRecord, a *messages.AttemptRecord, n *messages.NodeRecord) {
	limit := job.Spec.GetTimeLimitMs()
	if left := n.ClosesUnixMs - a.CommittedUnixMs; limit == 0 || limit+job.Spec.GetStop().GetGraceMs() > left {
		c.violate(w, "%s, with a limit of %d ms, is committed as run %d on %s, which closes in %d ms", job.Id, limit,
			a.Run, n.Id, left)
	}
}
