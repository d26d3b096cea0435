package sim

// beginKept is S29: nothing is committed before the begin that its record names, by the wall clock of the leader that
// commits it. Where clocks jump, one may do so between the decision and the write.
type beginKept struct{ rule }

func newBeginKept() *beginKept { return &beginKept{rule{"S29 begin-kept", on{Stored}}} }

func (c *beginKept) clauses() []clause {
	later := func(_ *World, page *jobPage) bool { return page.queued && page.record.Spec.GetBeginUnixMs() > 0 }
	return []clause{{about: later, away: c.away}}
}

func (*beginKept) away(w *World, _ *jobPage) string {
	if w.faults.byName["clock-jump"] != nil {
		return "some clock may jump"
	}
	return ""
}

// Step looks at each run that comes to disk.
func (c *beginKept) Step(w *World, e *Event) {
	s := e.Stored
	if s.job == nil || c.away(w, s.page) != "" {
		return
	}
	for _, a := range s.committed() {
		if begin := s.job.Spec.GetBeginUnixMs(); a.CommittedUnixMs < begin {
			c.violate(w, "%s is committed as run %d, %d ms before its begin", s.job.Id, a.Run, begin-a.CommittedUnixMs)
		}
	}
}
