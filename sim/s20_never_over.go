package sim

import "github.com/yi-json/synapse/messages"

// neverOver is S20: no set of COMMITs exceeds the limit of a queue or an owner. Jobs that must stay within a quota do
// not exceed it. A lowered limit applies only to later COMMITs.
type neverOver struct {
	rule
	revision uint64  // revision of the queues that the leader uses
	since    instant // since when the leader uses them
	epoch    uint64
}

// fresh is the time after a change of queues for which a leader may still commit earlier plans.
const fresh = 15e9

func newNeverOver() *neverOver { return &neverOver{rule: rule{"S20 never-over", on{Stored, Scanned}}} }

func (c *neverOver) clauses() []clause {
	waits := func(w *World, page *jobPage) bool { return isShared(w, page) && page.queued }
	return []clause{{about: waits, away: func(w *World, _ *jobPage) string { return c.away(w, w.engine.now) }}}
}

// away returns why a COMMIT with this time of decision is not judged.
func (c *neverOver) away(w *World, decided instant) string {
	if c.revision != w.books.queues.Revision || decided.since(c.since) <= fresh {
		return "its leader may not know the queues yet"
	}
	return ""
}

func (c *neverOver) Step(w *World, e *Event) {
	if w.books.queues == nil {
		return
	}
	if p := w.leader(); p != nil && p.leader != nil && (p.leader.QueuesRevision() != c.revision || p.epoch != c.epoch) {
		c.revision, c.since, c.epoch = p.leader.QueuesRevision(), w.engine.now, p.epoch
	}
	if e.Kind != Stored || e.Stored.job == nil || w.books.queues == nil {
		return
	}
	for _, a := range e.Stored.committed() {
		c.count(w, e.Stored.job, a)
		if c.away(w, e.Stored.decided) == "" {
			c.onCommit(w, e.Stored.job, a)
		}
	}
}

// onCommit adds a new attempt to the usage of its queue, the queue's ancestors, and the owner in each of them.
func (c *neverOver) onCommit(w *World, job *messages.JobRecord, a *messages.AttemptRecord) {
	for _, q := range w.above(job.Spec.Queue) {
		all := w.had(q.Name, anyJob)
		all.add(a)
		own := w.had(q.Name, func(o *messages.JobRecord) bool { return o.Owner.Known() == job.Owner.Known() })
		own.add(a)
		over := func(what string, has, most int64) {
			if most >= 0 && has > most {
				c.violate(w, "with job %s, queue %s has %d %s, but may have %d", job.Id, q.Name, has, what, most)
			}
		}
		if gpusOf(a) > 0 {
			over("thousandths of GPUs", all.gpus, gpusIn(q.Limit))
			over("thousandths of GPUs of one owner", own.gpus, gpusIn(q.OwnerAmounts))
		}
		if q.OwnerRunning != nil {
			over("running jobs of one owner", own.running, *q.OwnerRunning)
		}
		if q.OwnerMachines != nil {
			over("machines with jobs of one owner", int64(len(own.on)), *q.OwnerMachines)
		}
		if job.Spec.NotPreemptible && gpusOf(a) > 0 {
			fixed := w.had(q.Name, func(o *messages.JobRecord) bool { return o.Spec.GetNotPreemptible() })
			fixed.add(a)
			over("thousandths of GPUs in jobs that are not to be stopped", fixed.gpus, gpusIn(q.Quota))
		}
	}
}

// count counts jobs that start on another queue's quota, or on capacity without a quota.
func (c *neverOver) count(w *World, job *messages.JobRecord, a *messages.AttemptRecord) {
	assured, over := false, false
	for _, q := range w.above(job.Spec.Queue) {
		all := w.had(q.Name, anyJob)
		quota := gpusIn(q.Quota)
		assured = assured || quota >= 0
		over = over || quota >= 0 && all.gpus+gpusOf(a) > quota
	}
	if gpusOf(a) > 0 && (over || !assured) {
		w.count("shares.borrowed", 1)
	}
}
