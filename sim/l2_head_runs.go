package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// headRuns is L2: the first gang of the queue, if brute force finds room for it
// all the time, runs within 30 s. Machines that were left out for a while get
// the longest bench to return first.
type headRuns struct {
	notQuiet
	head  string
	since instant
}

func newHeadRuns() *headRuns { return &headRuns{} }

func (*headRuns) Name() string         { return "L2 head-runs" }
func (*headRuns) Watches() []EventKind { return []EventKind{Scanned} }

func (c *headRuns) Step(w *World, _ *Event) {
	if !w.healed || w.engine.now.since(w.healedAt) < w.constants.BenchCap+20*time.Second {
		return
	}
	head := c.first(w)
	if head == nil || head.record.Spec.GetEach() == nil || !w.fitsNow(head.record.Spec) {
		c.head = ""
		return
	}
	if head.record.Id != c.head {
		c.head, c.since = head.record.Id, w.engine.now
		return
	}
	if w.engine.now.since(c.since) > 30*time.Second {
		w.violate(c.Name(), "there has been room for 30 s: %s", w.whyWaits(head))
	}
}

// first is the job that everybody else in the queue waits behind.
func (c *headRuns) first(w *World) *jobPage {
	var head *jobPage
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		r := page.record
		if r.State != messages.JobState_JOB_STATE_QUEUED || r.Hold != nil || r.Cancel != nil || c.backsOff(w, r) {
			continue
		}
		if head == nil || r.Spec.Priority > head.record.Spec.Priority ||
			r.Spec.Priority == head.record.Spec.Priority && r.Arrival < head.record.Arrival {
			head = page
		}
	}
	return head
}

// backsOff tells whether the job waits by itself. The wall clock it waits on may
// have jumped since, by up to two hours; each leader bounds that by its backoff.
func (c *headRuns) backsOff(w *World, r *messages.JobRecord) bool {
	since := later(later(w.books.jobs[r.Id].since, w.ledSince), w.healedAt)
	return r.NotBeforeUnixMs > 0 && w.engine.now.since(since) < w.constants.BackoffCap+2*time.Minute
}
