package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// learnedOnce is S31: leaders learn exactly once from each attempt that ended after it had run, whichever leader dies
// in between. The estimates outlive leaders. If the store is restored, later estimates are lost and learned again.
type learnedOnce struct {
	rule
	committed map[topology.Token]instant
	passed    map[topology.Token]instant // when the store got the passed barrier
	ended     map[topology.Token]*lesson
	learned   int64 // ended attempts with a full run that are in the record
}

// lesson is one ended attempt, and whether the record includes it.
type lesson struct {
	job   string
	cause messages.Cause
	known bool
}

// warm is the number of jobs after which a cell stops counting.
const warm = 50

func newLearnedOnce() *learnedOnce {
	return &learnedOnce{rule: rule{"S31 learned-once", on{Stored}}, committed: map[topology.Token]instant{},
		passed: map[topology.Token]instant{}, ended: map[topology.Token]*lesson{}}
}

// restored continues from the store, whose later estimates are lost.
func (c *learnedOnce) restored(w *World) {
	c.learned = 0
	for t, l := range c.ended { //order: each by itself
		a := w.books.attempts[t]
		if w.loss.tokens[t] || a != nil && a.End == nil {
			delete(c.ended, t)
		} else if l.known = w.books.learned[t]; l.known && l.ranItsLength() {
			c.learned++
		}
	}
	maps.DeleteFunc(c.passed, func(t topology.Token, _ instant) bool {
		a := w.books.attempts[t]
		return a != nil && a.StartedUnixMs == 0
	})
}

// ranItsLength reports whether an attempt shows how long its job runs.
func (l *lesson) ranItsLength() bool {
	switch l.cause {
	case messages.Cause_CAUSE_SUCCEEDED, messages.Cause_CAUSE_MEMBER_FAILED, messages.Cause_CAUSE_TIME_LIMIT,
		messages.Cause_CAUSE_CANCELLED:
		return true
	}
	return false
}

func (c *learnedOnce) Step(w *World, e *Event) {
	s := e.Stored
	for _, a := range s.committed() {
		c.committed[messages.FromToken(a.Token)] = w.engine.now
	}
	for i, a := range s.attempts {
		if a.StartedUnixMs != 0 && s.attemptsWere[i].GetStartedUnixMs() == 0 {
			c.passed[messages.FromToken(a.Token)] = w.engine.now
		}
		if a.End != nil && s.attemptsWere[i].GetEnd() == nil {
			c.onEnd(w, s, a)
		}
	}
	if s.policy != nil {
		c.onRecord(w, s)
	}
}

// onEnd compares the stored run time of an attempt with two bounds: the time since its COMMIT, and the time since it
// was known to run. A later leader takes the run time from a node's message, as of the moment when the message left.
// Late messages therefore make it shorter.
func (c *learnedOnce) onEnd(w *World, s *stored, a *messages.AttemptRecord) {
	t := messages.FromToken(a.Token)
	ran := time.Duration(a.End.RanMs) * time.Millisecond
	least, most := s.decided.since(c.passed[t]), s.decided.since(c.committed[t])
	if s.epoch != t.Epoch && !w.faults.prompt() {
		least = 0
	}
	if ran > 0 && (ran > most+most/20+time.Second || ran < least-least/20-time.Second) {
		c.violate(w, "%v of job %s has a stored runtime of %s, but it ran at least %s and was committed %s before its end",
			t, a.Job,
			ran, least, most)
	}
	if ran > 0 {
		c.ended[t] = &lesson{job: a.Job, cause: a.End.Cause}
	}
}

// onRecord compares the attempts that the record includes for the first time with the ended attempts, and with the
// counts in the record.
func (c *learnedOnce) onRecord(w *World, s *stored) {
	for _, t := range s.learned {
		switch l := c.ended[t]; {
		case l == nil:
			c.violate(w, "the policy record includes %v, which has not ended", t)
			return
		case l.known:
			c.violate(w, "%v is learned twice", t)
			return
		default:
			if l.known = true; l.ranItsLength() {
				c.learned++
			}
		}
	}
	var counted int64
	for _, cell := range s.policy.Cells {
		if cell.Level == messages.CellLevel_CELL_LEVEL_POOL {
			counted += cell.Ended
		}
	}
	if counted > c.learned || counted < min(c.learned, warm) {
		c.violate(w, "the policy record counts %d jobs, but includes %d attempts with a full run", counted, c.learned)
	}
}

// Quiet checks that every end is in the record, unless its job was pruned before.
func (c *learnedOnce) Quiet(w *World) {
	for _, t := range slices.SortedFunc(maps.Keys(c.ended), topology.Token.Compare) {
		if l := c.ended[t]; !l.known && w.books.jobs[l.job] != nil && !w.books.gaveUp(l.job) && !w.unreadable(l.job) {
			c.violate(w, "%v of job %s ended, but no record includes it", t, l.job)
		}
	}
}
