package sim

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// holdHolds is S24: nothing is committed over a Hold on disk. A Hold comes to
// disk, and goes, only while somebody asks for it; and a client that was told that it is there, or gone, with nobody
// else asking, finds it so. A wish that a leader of the past refused may still be granted by the present one, asked
// before it; and one that was asked again while the write that answers it was under way goes with the next.
type holdHolds struct {
	rule
	answered map[string]instant      // by job: when the last wish of this sort was
	refused  map[string]bool         // by job: one was, and had been asked twice
	repeated map[heldAs]uint64       // one that had been asked twice was answered by this revision
	swept    map[string]bool         // arrays of which that was wanted: their elements may be held, or released, for it
	written  map[topology.Token]bool // by the write: it was asked for; it may land again in a replica that had lost it
}

// heldAs is a job as somebody wants it: held, or released.
type heldAs struct {
	job  string
	held bool
}

func newHoldHolds() *holdHolds {
	return &holdHolds{rule: rule{"S24 hold-holds", on{Stored, Replied}},
		answered: map[string]instant{}, refused: map[string]bool{}, repeated: map[heldAs]uint64{},
		written: map[topology.Token]bool{}, swept: map[string]bool{}}
}

func (c *holdHolds) Step(w *World, e *Event) {
	if e.Kind == Stored {
		c.onStored(w, e.Stored)
	} else if a := w.client.asks[e.Path]; a != nil {
		if job, held, ok := wishOf(a.message); ok {
			c.swept[job] = true
			c.onAnswer(w, a, e.Message, job, held)
		}
	}
}

// wishOf returns the request of a message: to hold a job, or to release it.
func wishOf(question messages.Message) (job string, held, ok bool) {
	switch m := question.(type) {
	case *messages.Hold:
		return m.Job, !m.Release, true
	case *messages.Requeue:
		return m.Job, true, m.Hold
	}
	return "", false, false
}

func (c *holdHolds) onStored(w *World, s *stored) {
	if s.job == nil || s.jobWas == nil {
		return
	}
	for _, a := range s.committed() {
		if s.jobWas.Hold != nil || s.job.Hold != nil {
			c.violate(w, "%s is committed as run %d over a Hold", s.job.Id, a.Run)
		}
	}
	held := s.job.Hold != nil
	again := c.repeated[heldAs{s.job.Id, held}] == s.jobWas.Revision
	if by := messages.FromToken(s.job.WrittenBy); held != (s.jobWas.Hold != nil) && !c.written[by] {
		array, _, _ := messages.ArrayOf(s.job.Id)
		if !c.refused[s.job.Id] && !asked(w, s.job.Id, held) && !again && !asked(w, array, held) && !c.swept[array] {
			c.violate(w, "%s is held=%v on disk, and nobody asks for that", s.job.Id, held)
		}
		c.written[by] = true
	}
}

// asked reports whether somebody waits for a job, or an element of it, to be held, or released.
func asked(w *World, job string, held bool) bool {
	for _, a := range w.client.asks { //order: any will do
		of, wants, ok := wishOf(a.message)
		if array, _, _ := messages.ArrayOf(of); ok && (of == job || array == job) && wants == held {
			return true
		}
	}
	return false
}

func (c *holdHolds) onAnswer(w *World, a *ask, reply messages.Message, job string, held bool) {
	outcome := reply.(interface{ GetOutcome() *messages.Outcome }).GetOutcome()
	if !settled(outcome) {
		return
	}
	alone := a.since > c.answered[job] && !asked(w, job, !held)
	c.answered[job] = w.engine.now
	if array, _, is := messages.ArrayOf(job); is { // what is wanted of all of it may go with the same write
		alone = alone && a.since > c.answered[array] && !asked(w, array, !held)
		c.answered[array] = w.engine.now
	}
	page := w.books.jobs[job]
	if a.sent > 1 && page != nil {
		c.repeated[heldAs{job, held}] = page.record.Revision
	}
	c.refused[job] = c.refused[job] || outcome.GetCode() != messages.Code_CODE_OK && a.sent > 1
	if outcome.GetCode() != messages.Code_CODE_OK || !alone || c.refused[job] || page == nil ||
		page.record.State.Terminal() {
		return
	}
	is := page.record.Hold != nil
	if page.record.Spec.GetArray() != nil { // it is always held for leaders of an earlier version
		is = page.record.GetArray().GetHold() != nil
	}
	if is != held {
		c.violate(w, "somebody was told that %s is held=%v, and on disk it is held=%v", job, held, is)
	}
}
