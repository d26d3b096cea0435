package sim

// beginKept is S29: nothing is committed before the begin that its record names, by the wall clock of the leader that
// commits it. Where clocks jump, one may do so between the decision and the write.
type beginKept struct{ rule }

func newBeginKept() *beginKept { return &beginKept{rule{"S29 begin-kept", on{Stored}}} }

// Step looks at each run that comes to disk.
func (c *beginKept) Step(w *World, e *Event) {
	s := e.Stored
	if s.job == nil || w.faults.byName["clock-jump"] != nil {
		return
	}
	for _, a := range s.committed() {
		if begin := s.job.Spec.GetBeginUnixMs(); a.CommittedUnixMs < begin {
			c.violate(w, "%s is committed as run %d, %d ms before its begin", s.job.Id, a.Run, begin-a.CommittedUnixMs)
		}
	}
}
