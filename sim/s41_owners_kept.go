package sim

import "github.com/yi-json/synapse/messages"

// ownersKept is S41: a job or an array of an owner who may not use its queue is never accepted. Lists may change while
// a submit is on its way. So the owner must be allowed by some set of queues in the store since the first request. An
// element is accepted with its array. No leader rejects an owner that all such queues allow. A deposed leader may use
// any earlier queues.
type ownersKept struct{ rule }

func newOwnersKept() *ownersKept {
	return &ownersKept{rule{"S41 owners-kept", on{Stored, Replied}}}
}

// Step checks each job that is accepted or rejected.
func (c *ownersKept) Step(w *World, e *Event) {
	if e.Kind == Replied {
		c.onReply(w, e)
		return
	}
	job := e.Stored.job
	if job == nil || e.Stored.jobWas != nil || job.Spec.GetElement() != nil {
		return
	}
	o := w.client.orderOf(job.RequestId)
	if o == nil {
		c.violate(w, "job %s was accepted, but no client submitted it", job.Id)
		return
	}
	admitted, barred := false, false
	for _, q := range w.queuesSince(o.asked - instant(slowWord)) {
		if w.admits(q, job.Spec.Queue, job.Owner) {
			admitted = true
		} else {
			barred = true
		}
	}
	if !admitted {
		c.violate(w, "job %s was accepted into queue %s, which %s may not use", job.Id, job.Spec.Queue, job.Owner.GetName())
	}
	if len(w.books.queues.GetQueues().GetQueues()) > 0 && !barred && w.sharing.listed {
		w.count("owners.admitted", 1)
	}
}

// onReply checks a rejection.
func (c *ownersKept) onReply(w *World, e *Event) {
	r, is := e.Message.(*messages.SubmitReply)
	a := w.client.asks[e.Path]
	if !is || a == nil || r.Outcome.GetCode() != messages.Code_CODE_NOT_ALLOWED || r.Outcome.Field != "spec.queue" {
		return
	}
	w.count("owners.refused", 1)
	m := a.message.(*messages.Submit)
	since := instant(0) // a deposed leader may use any earlier queues
	if o := w.client.orderOf(m.RequestId); o != nil && e.Process == w.leader() {
		since = o.asked - instant(slowWord)
	}
	for _, q := range w.queuesSince(since) {
		if !w.admits(q, m.Spec.Queue, m.Principal) {
			return
		}
	}
	c.violate(w, "%s was rejected by queue %s, although it may use the queue: %s",
		m.Principal.GetName(), m.Spec.Queue, r.Outcome.Text)
}
