package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
)

// acknowledgedKept is S8. Every acknowledged submit is stored, under one ID however often the client repeated it. A
// terminal state is final. A job with an acknowledged cancel ends in no other way later. If its record was corrupted,
// the store has nothing after the cancel. If a requeue is acknowledged, the end of the attempt is on disk. If an update
// is acknowledged, the new values were on disk.
type acknowledgedKept struct {
	rule
	asked map[string]string  // job ID by request ID, as acknowledged
	terms map[string][]terms // all terms that each job ever had on disk, oldest first
}

// terms holds the fields of a live job that may be changed.
type terms struct {
	priority    int32
	timeLimitMs int64
}

func newAcknowledgedKept() *acknowledgedKept {
	return &acknowledgedKept{rule: rule{"S8 acknowledged-kept", on{Sent, Stored, Replied}},
		asked: map[string]string{}, terms: map[string][]terms{}}
}

func (c *acknowledgedKept) Step(w *World, e *Event) {
	switch e.Kind {
	case Stored:
		c.onStored(w, e.Stored)
	case Sent:
		switch m := e.Message.(type) {
		case *messages.SubmitReply:
			c.onSubmitReply(w, m)
		case *messages.CancelReply:
			c.onCancelReply(w, m)
		case *messages.RequeueReply:
			c.onRequeueReply(w, m)
		case *messages.UpdateReply:
			now := terms{m.Priority, m.TimeLimitMs}
			if m.Outcome.GetCode() == messages.Code_CODE_OK && !slices.Contains(c.terms[m.Job], now) &&
				!w.books.isToAsk(m.Job, now) {
				c.violate(w, "the update of job %s to priority %d and limit %d ms was acknowledged but is not on disk",
					m.Job, m.Priority,
					m.TimeLimitMs)
			}
		}
	case Replied:
		if m, is := e.Message.(*messages.SubmitReply); is && m.Outcome.GetCode() == messages.Code_CODE_OK {
			c.onAcknowledged(w, m)
		}
	}
}

// onAcknowledged checks that the same request did not become another job before. A job that the operator lost while its
// answer was on its way does not count any more.
func (c *acknowledgedKept) onAcknowledged(w *World, m *messages.SubmitReply) {
	page := w.books.jobs[m.Job]
	if page == nil {
		return
	}
	request := page.record.RequestId
	if before := c.asked[request]; before != "" && before != m.Job && !w.books.gaveUp(before) {
		c.violate(w, "submit %s was acknowledged as job %s, and before as job %s", request, m.Job, before)
	}
	c.asked[request] = m.Job
}

func (c *acknowledgedKept) onSubmitReply(w *World, m *messages.SubmitReply) {
	if m.Outcome.GetCode() == messages.Code_CODE_OK && w.books.jobs[m.Job] == nil {
		c.violate(w, "job %s was acknowledged but is not on disk", m.Job)
	}
}

func (c *acknowledgedKept) onCancelReply(w *World, m *messages.CancelReply) {
	page := w.books.jobs[m.Job]
	if m.Outcome.GetCode() == messages.Code_CODE_OK && !w.books.gaveUp(m.Job) && !w.books.neverBorn(m.Job) &&
		(page == nil || page.record.Cancel == nil) {
		c.violate(w, "the cancel of job %s was acknowledged but is not on disk", m.Job)
	}
}

func (c *acknowledgedKept) onRequeueReply(w *World, m *messages.RequeueReply) {
	page := w.books.jobs[m.Job]
	if m.Run == 0 || page == nil {
		return
	}
	for _, a := range w.books.attemptsOf(page) {
		if a.Run == m.Run && (a.GetEnd().GetCause() == messages.Cause_CAUSE_REQUEUED || a.Pending != nil) {
			return
		}
	}
	c.violate(w, "the requeue of job %s was acknowledged, but the end of attempt %d is not on disk", m.Job, m.Run)
}

func (c *acknowledgedKept) onStored(w *World, s *stored) {
	if s.job == nil {
		return
	}
	now := terms{s.job.Spec.GetPriority(), s.job.Spec.GetTimeLimitMs()}
	if all := c.terms[s.job.Id]; len(all) == 0 || all[len(all)-1] != now {
		c.terms[s.job.Id] = append(all, now)
	}
	was := s.jobWas
	if was == nil {
		return
	}
	if was.State.Terminal() && s.job.State != was.State {
		c.violate(w, "job %s was %v, and now is %v", was.Id, was.State, s.job.State)
	}
	if was.Cancel != nil && s.job.Cancel == nil {
		c.violate(w, "the cancel of job %s is no longer on disk", was.Id)
	}
}

// restored forgets the jobs that the operator lost.
func (c *acknowledgedKept) restored(w *World) {
	for request, id := range c.asked { //order: each is looked at alone
		if w.books.jobs[id] == nil {
			delete(c.asked, request)
		}
	}
}

// Quiet checks that every acknowledged job is stored.
func (c *acknowledgedKept) Quiet(w *World) {
	for _, o := range w.client.jobs {
		if o.id == "" {
			continue
		}
		if page := w.books.jobs[o.id]; page == nil || page.record.RequestId != o.requestID {
			c.violate(w, "submit %s was acknowledged as job %s but is not in the store", o.requestID, o.id)
		}
	}
}
