package sim

import "github.com/yi-json/synapse/messages"

// harmsItself is S35: what a machine says harms nobody but what runs on it. No attempt ends by the word of a machine
// that has no part in it. That the exits of all other machines are on disk as they were is S10.
//
// A store that was put back has forgotten attempts. One machine that still has such a run of a job is enough to give up
// the one that is in the making: two runs of a job at once would be worse than one more that comes to nothing.
type harmsItself struct{ rule }

func newHarmsItself() *harmsItself {
	return &harmsItself{rule: rule{"S35 harms-itself", on{Stored}}}
}

func (c *harmsItself) clauses() []clause { return []clause{{"requeued", isActive, c.away}} }

// away is why it is not judged by whose word a job is queued again.
func (*harmsItself) away(w *World, page *jobPage) string {
	if w.hasLostRun(page.record.Id) {
		return "the store has lost a run of it"
	}
	return ""
}

// Step looks at each record of an attempt.
func (c *harmsItself) Step(w *World, e *Event) {
	for _, a := range e.Stored.attempts {
		own := a.End.GetNode() == ""
		for _, p := range a.Places {
			own = own || p.Node == a.End.GetNode()
		}
		forgotten := a.End.GetCause() == messages.Cause_CAUSE_REQUEUED && c.away(w, e.Stored.page) != ""
		if !own && !forgotten {
			c.violate(w, "%s ended by the word of %s, which has no part in it: %v", a.Job, a.End.Node, a.End)
		}
	}
}
