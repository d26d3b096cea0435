package sim

import "time"

// beginKept is S29: nothing is committed before the begin that its record names, by the wall clock of the leader that
// commits it. Where clocks jump, one may do so between the decision and the write.
type beginKept struct{ rule }

func newBeginKept() *beginKept { return &beginKept{rule{"S29 begin-kept", on{Stored}}} }

func (c *beginKept) clauses() []clause {
	later := func(_ *World, page *jobPage) bool { return page.queued && page.record.Spec.GetBeginUnixMs() > 0 }
	return []clause{{about: later, away: func(w *World, _ *jobPage) string { return c.away(w, w.leading, w.engine.now) }}}
}

// away is why a COMMIT that a scheduler decided then is not judged.
func (*beginKept) away(w *World, h *schedulerHost, decided instant) string {
	if h != nil && h.jumped > 0 && decided.since(h.jumped) < time.Minute {
		return "the leader's clock jumped a moment ago"
	}
	return ""
}

// Step looks at each run that comes to disk.
func (c *beginKept) Step(w *World, e *Event) {
	s := e.Stored
	if s.job == nil || c.away(w, s.proc.host, s.decided) != "" {
		return
	}
	for _, a := range s.committed() {
		if begin := s.job.Spec.GetBeginUnixMs(); a.CommittedUnixMs < begin {
			c.violate(w, "%s is committed as run %d, %d ms before its begin", s.job.Id, a.Run, begin-a.CommittedUnixMs)
		}
	}
}
