package sim

import "github.com/yi-json/synapse/messages"

// harmsItself is S35: false reports of a node harm only its own tasks. No attempt ends because of a node that has no
// part in it. S10 checks that the exits of all other nodes are stored truthfully.
//
// A restored store has forgotten attempts. If one node still has such an attempt of a job, the attempt that is being
// made is given up. Two attempts of a job at once would be worse than one failed attempt.
type harmsItself struct{ rule }

func newHarmsItself() *harmsItself {
	return &harmsItself{rule: rule{"S35 harms-itself", on{Stored}}}
}

func (c *harmsItself) clauses() []clause { return []clause{{"requeued", isActive, c.away}} }

// away returns why the cause for which a job is queued again is not judged.
func (*harmsItself) away(w *World, page *jobPage) string {
	if w.hasLostRun(page.record.Id) {
		return "the store has lost a run of it"
	}
	return ""
}

// Step checks each record of an attempt.
func (c *harmsItself) Step(w *World, e *Event) {
	for _, a := range e.Stored.attempts {
		own := a.End.GetNode() == ""
		for _, p := range a.Places {
			own = own || p.Node == a.End.GetNode()
		}
		forgotten := a.End.GetCause() == messages.Cause_CAUSE_REQUEUED && c.away(w, e.Stored.page) != ""
		if !own && !forgotten {
			c.violate(w, "job %s ended because of a report by %s, which has no part in it: %v", a.Job, a.End.Node, a.End)
		}
	}
}
