package sim

import "github.com/yi-json/synapse/messages"

// wholeGangPreemption is S12: a preemptor starts only after S10 for every
// reachable victim. Nobody preempts yet; an attempt that ended for that reason
// would have been stopped without the check that belongs into this file.
type wholeGangPreemption struct{ notQuiet }

func newWholeGangPreemption() *wholeGangPreemption { return &wholeGangPreemption{} }

func (*wholeGangPreemption) Name() string         { return "S12 whole-gang preemption" }
func (*wholeGangPreemption) Watches() []EventKind { return []EventKind{Stored} }

func (c *wholeGangPreemption) Step(w *World, e *Event) {
	for _, a := range e.Stored.attempts {
		if a.GetEnd().GetCause() == messages.Cause_CAUSE_PREEMPTED {
			w.violate(c.Name(), "%s was preempted, and this file does not check that", a.Job)
		}
	}
}
