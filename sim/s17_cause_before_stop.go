package sim

import "github.com/yi-json/synapse/messages"

// causeBeforeStop is S17: no Stop leaves without its cause on disk. A leader of
// the past may still say Stop of what had ended before; never of what runs.
type causeBeforeStop struct{ notQuiet }

func newCauseBeforeStop() *causeBeforeStop { return &causeBeforeStop{} }

func (*causeBeforeStop) Name() string         { return "S17 cause-before-stop" }
func (*causeBeforeStop) Watches() []EventKind { return []EventKind{Sent} }

func (c *causeBeforeStop) Step(w *World, e *Event) {
	m, is := e.Message.(*messages.Stop)
	if !is {
		return
	}
	t := messages.FromToken(m.Order.GetToken())
	if a := w.books.attempts[t]; a != nil {
		if a.End == nil {
			w.violate(c.Name(), "Stop{%v} of %v of %s was sent and no cause is on disk", m.Cause, t, a.Job)
		}
		return
	}
	if _, committed := w.books.owner[t]; !committed {
		w.violate(c.Name(), "Stop{%v} of %v was sent, of which there is no COMMIT on disk", m.Cause, t)
	}
}
