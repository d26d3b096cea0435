package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// holdHolds is S24: nothing is committed over a Hold on disk. A Hold appears on disk, and disappears, only while a
// client requests that. If no other client interferes, a client finds its acknowledged hold or release in the store.
// Two cases are allowed. A deposed leader may refuse a request that the present leader, which got it earlier, grants. A
// request that was repeated before its answer is done with the next write, or a moment later if its copy was delayed.
type holdHolds struct {
	rule
	answered map[string]instant // by job: when the last such request was answered
	refused  map[string]bool    // by job: a request was refused, and had been sent twice
	repeated map[heldAs]copied  // the answer to a request which had been sent twice
	swept    map[string]bool    // arrays with such a request, which may hold or release their elements
	// by write: it was requested, and may be repeated in a replica that had lost it
	written map[topology.Token]bool
}

// heldAs is a job in the requested state: held or released.
type heldAs struct {
	job  string
	held bool
}

// copied is the revision and the time that answered a request.
type copied struct {
	revision uint64
	at       instant
}

// copyBound is how long a copy of a request may arrive after the answer.
const copyBound = 10 * time.Second

func newHoldHolds() *holdHolds {
	return &holdHolds{rule: rule{"S24 hold-holds", on{Stored, Replied}},
		answered: map[string]instant{}, refused: map[string]bool{}, repeated: map[heldAs]copied{},
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
			c.violate(w, "job %s is committed as attempt %d despite a Hold", s.job.Id, a.Run)
		}
	}
	held := s.job.Hold != nil
	last, again := c.repeated[heldAs{s.job.Id, held}]
	again = again && (last.revision == s.jobWas.Revision || w.engine.now.since(last.at) <= copyBound)
	if by := messages.FromToken(s.job.WrittenBy); held != (s.jobWas.Hold != nil) && !c.written[by] {
		array, _, _ := messages.ArrayOf(s.job.Id)
		if !c.refused[s.job.Id] && !asked(w, s.job.Id, held) && !again && !asked(w, array, held) && !c.swept[array] {
			c.violate(w, "job %s is held=%v on disk, but no client requests that", s.job.Id, held)
		}
		c.written[by] = true
	}
}

// asked reports whether a client waits for a hold or a release of a job or one of its elements.
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
	if array, _, is := messages.ArrayOf(job); is { // a request about the whole array may be in the same write
		alone = alone && a.since > c.answered[array] && !asked(w, array, !held)
		c.answered[array] = w.engine.now
	}
	page := w.books.jobs[job]
	if a.sent > 1 && page != nil {
		c.repeated[heldAs{job, held}] = copied{page.record.Revision, w.engine.now}
	}
	c.refused[job] = c.refused[job] || outcome.GetCode() != messages.Code_CODE_OK && a.sent > 1
	if outcome.GetCode() != messages.Code_CODE_OK || !alone || c.refused[job] || page == nil ||
		page.record.State.Terminal() {
		return
	}
	is := page.record.Hold != nil
	if page.record.Spec.GetArray() != nil { // for leaders of an earlier version an array is always held
		is = page.record.GetArray().GetHold() != nil
	}
	if is != held {
		c.violate(w, "a client got the answer that job %s is held=%v, but on disk it is held=%v", job, held, is)
	}
}
