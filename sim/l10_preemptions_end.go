package sim

// preemptionsEnd is L10: once arrivals stop, preemptions end. No job is preempted more than three times for jobs of
// higher priority.
type preemptionsEnd struct{ rule }

func newPreemptionsEnd() *preemptionsEnd {
	return &preemptionsEnd{rule{"L10 preemptions-end", on{Stored}}}
}

func (c *preemptionsEnd) Step(w *World, e *Event) {
	if r := e.Stored.job; r != nil && r.Outranked > 3 {
		c.violate(w, "job %s was preempted %d times for jobs of higher priority", r.Id, r.Outranked)
	}
}

// Quiet checks that no job still waits for a preemption.
func (c *preemptionsEnd) Quiet(w *World) {
	for _, id := range w.books.ids {
		if r := w.books.jobs[id].record; len(r.Promise.GetVictims()) > 0 {
			c.violate(w, "job %s still waits for its preempted victims", id)
			return
		}
	}
}
