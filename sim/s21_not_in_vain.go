package sim

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// notInVain is S21: no preemption is unnecessary. Without any one of the victims the gang would not fit, by brute force
// at the moment of choice. Each victim has run for minRun, and was preempted for a job of its queue at most twice
// before. One of three reasons applies to each victim:
//   - It has a lower priority in the same queue.
//   - Its queue and that queue's ancestors, below the common one, exceed their quotas even without the other victims,
//     and the job stays within its own quotas.
//   - It has run several times as long as the estimate of a job in the same queue, whose priority is not lower.
type notInVain struct {
	rule
	began map[topology.Token]instant // when an attempt's first process started
	tried map[string]try             // each job's latest attempt with a Reserve
	given map[string]instant         // when each job's UID was on disk, after the job was started
}

type try struct {
	token topology.Token
	at    instant
}

func newNotInVain() *notInVain {
	return &notInVain{
		rule:  rule{"S21 not-in-vain", on{Drafted, TaskSpawned, Sent, Stored}},
		began: map[topology.Token]instant{}, tried: map[string]try{}, given: map[string]instant{},
	}
}

func (c *notInVain) clauses() []clause {
	return []clause{
		{"reclaimed", isStoppable, c.awayFromQuota}, {"without", isFreed, c.awayFromTrying},
	}
}

// isStoppable reports whether a job runs that may be preempted.
func isStoppable(w *World, page *jobPage) bool { return isShared(w, page) && isActive(w, page) }

// awayFromQuota returns why the checker does not judge a reclaim for a job.
func (c *notInVain) awayFromQuota(w *World, page *jobPage) string {
	if w.engine.now.since(w.books.queuesAt) < fresh {
		return "its leader may not know the queues yet"
	}
	return ""
}

func (c *notInVain) Step(w *World, e *Event) {
	switch e.Kind {
	case TaskSpawned:
		if t := e.Task.key.Token; c.began[t] == 0 {
			c.began[t] = w.engine.now
		}
		return
	case Stored:
		if job, was := e.Stored.job, e.Stored.jobWas; job != nil && was != nil && was.UidToCome && !job.UidToCome {
			c.given[job.Id] = w.engine.now
		}
		return
	case Sent:
		if m, is := e.Message.(*messages.Reserve); is {
			c.tried[m.Order.Job] = try{messages.FromToken(m.Order.Token), w.engine.now}
		}
		return
	}
	if e.Process.epoch < w.store.kept.Epoch() {
		// Another leader has written since. The store rejects this write, and its writer could not know better.
		return
	}
	job := e.Draft.Job
	was := w.books.jobs[job.GetId()]
	if len(job.GetPromise().GetVictims()) == 0 || was == nil || w.books.queues == nil {
		return
	}
	before := was.record.Promise.GetVictims()
	for _, v := range job.Promise.Victims {
		same := func(o *messages.Victim) bool { return messages.FromToken(o.Token) == messages.FromToken(v.Token) }
		if !slices.ContainsFunc(before, same) {
			c.onChosen(w, job, v)
		}
	}
	if len(before) == 0 {
		c.tryWithout(w, e.Process, job)
	}
}

// onChosen checks the reason for which a victim was chosen.
func (c *notInVain) onChosen(w *World, job *messages.JobRecord, v *messages.Victim) {
	page, t := w.books.jobs[v.Job], messages.FromToken(v.Token)
	if page == nil || page.record.Spec == nil {
		return // It has ended and was dropped. A deposed leader may still choose it, but cannot write that.
	}
	victim := page.record
	changed := victim.Changed != nil || job.Changed != nil // the leader may have used an earlier priority
	switch {
	case v.Rule == messages.PreemptionRule_PREEMPTION_RULE_RECLAIM:
		c.onReclaimed(w, job, victim)
	case victim.Spec.Queue != job.Spec.Queue:
		c.violate(w, "job %s of queue %s is preempted by priority for job %s of queue %s",
			v.Job, victim.Spec.Queue, job.Id, job.Spec.Queue)
	case v.Rule == messages.PreemptionRule_PREEMPTION_RULE_SHORTEST:
		c.onLonger(w, job, victim, t)
	case victim.Spec.Priority >= job.Spec.Priority && !changed:
		c.violate(w, "job %s of priority %d is preempted for job %s of priority %d", v.Job, victim.Spec.Priority, job.Id,
			job.Spec.Priority)
	}
	if victim.Outranked >= 3 && v.Rule != messages.PreemptionRule_PREEMPTION_RULE_RECLAIM {
		c.violate(w, "job %s was preempted %d times for jobs of its queue, and is again", v.Job, victim.Outranked)
	}
	if victim.Spec.NotPreemptible {
		c.violate(w, "job %s is not preemptible, but is chosen as a victim for job %s", v.Job, job.Id)
	}
	least := time.Duration(0)
	if v.Rule == messages.PreemptionRule_PREEMPTION_RULE_SHORTEST {
		least = time.Hour // the default if no queue sets it
	}
	for _, q := range w.above(victim.Spec.Queue) {
		if q.MinRunMs != nil {
			least = time.Duration(*q.MinRunMs) * time.Millisecond
			break
		}
	}
	began, ran := c.began[t], w.engine.now.since(c.began[t])
	if least > 0 && (began == 0 || ran < least-least/50-100*time.Millisecond) {
		c.violate(w, "job %s is chosen as a victim for job %s after %s, but its queue's minimum runtime is %s",
			v.Job, job.Id, ran, least)
	}
}

// onLonger checks a victim that is preempted for a shorter job. The victim saves checkpoints, is at most four times as
// large as the job, and has run four times the job's estimate. The estimate is the time that the job has already run,
// or half an hour for a new job, and at most its limit. Clocks may differ a little.
func (c *notInVain) onLonger(w *World, job, victim *messages.JobRecord, t topology.Token) {
	const usual = 30 * time.Minute
	had := time.Duration(job.RanMs) * time.Millisecond
	takes := max(usual-had, had)
	if limit := time.Duration(job.Spec.TimeLimitMs) * time.Millisecond; limit > 0 {
		takes = min(takes, limit)
	}
	ran := time.Duration(victim.RanMs)*time.Millisecond + w.engine.now.since(c.began[t])
	switch {
	case victim.Changed != nil || job.Changed != nil:
	case victim.Spec.Priority > job.Spec.Priority:
		c.violate(w, "job %s of priority %d is preempted for the shorter job %s of priority %d",
			victim.Id, victim.Spec.Priority,
			job.Id, job.Spec.Priority)
	case victim.Spec.CheckpointMs == 0 && w.books.attempts[t].GetSaved() == nil:
		c.violate(w, "job %s has no checkpoints, but is preempted for the shorter job %s", victim.Id, job.Id)
	case gpusAsked(victim.Spec) > 4*gpusAsked(job.Spec):
		c.violate(w, "job %s is preempted for job %s, which is much smaller", victim.Id, job.Id)
	case max(usual-ran, ran) < 4*takes-takes/10-time.Second:
		c.violate(w, "job %s has run for %s and is preempted for job %s, whose estimate is %s", victim.Id, ran, job.Id, takes)
	}
}

// onReclaimed compares the queues of both jobs, below their common ancestor, with their quotas. Attempts that are about
// to be committed count for the victim's queues, and not for the job's queues. Attempts that are being stopped count
// for neither.
func (c *notInVain) onReclaimed(w *World, job, victim *messages.JobRecord) {
	if victim.Spec.Queue == job.Spec.Queue {
		c.violate(w, "job %s is reclaimed for job %s of the same queue", victim.Id, job.Id)
		return
	}
	if c.awayFromQuota(w, &jobPage{record: job}) != "" {
		return
	}
	goes := map[string]bool{} // including the victims of others and of this job
	if p := w.leader(); p != nil && p.leader != nil {
		for _, id := range p.leader.Stopping(job.Promise.Order) {
			goes[string(id)] = true
		}
	}
	for _, v := range job.Promise.Victims {
		goes[v.Job] = true
	}
	for _, q := range w.above(victim.Spec.Queue) {
		quota := gpusIn(q.Quota)
		if quota < 0 || w.isIn(job, q.Name) {
			continue
		}
		if has := c.atMost(w, q.Name, func(o *messages.JobRecord) bool {
			return o.Id == victim.Id || !goes[o.Id]
		}).gpus; has <= quota {
			c.violate(w, "job %s is reclaimed for job %s, but queue %s has only %d of its quota %d without the other victims",
				victim.Id, job.Id, q.Name, has, quota)
		}
	}
	for _, q := range w.above(job.Spec.Queue) {
		quota, has := gpusIn(q.Quota), w.had(q.Name, func(o *messages.JobRecord) bool { return !goes[o.Id] }).gpus
		if quota >= 0 && gpusAsked(job.Spec) > 0 && !w.isIn(victim, q.Name) && has+gpusAsked(job.Spec) > quota {
			c.violate(w, "job %s is reclaimed for job %s, with which queue %s has %d of its quota %d", victim.Id, job.Id, q.Name,
				has+gpusAsked(job.Spec), quota)
		}
	}
}

// atMost returns the resources of these jobs in a queue, with every resource that they may have received. Starts of the
// same pass count, because a queue above its quota by the pass would otherwise seem to be within it. The guarantee is
// written before the first Reserve of a start is sent, and only the leader knows of that start. New start guarantees of
// the same pass count too, and so do starts that a job declined, such as a job without a free UID.
func (c *notInVain) atMost(w *World, queue string, these func(*messages.JobRecord) bool) had {
	h, p := w.had(queue, these), w.leader()
	for _, id := range w.books.ids {
		r := w.books.jobs[id].record
		a := w.books.latest(w.books.jobs[id])
		if r.State.Terminal() || a != nil && a.End == nil || !w.isIn(r, queue) || !these(r) {
			continue
		}
		last, tried := c.tried[id]
		given, numbered := c.given[id]
		starts := tried && w.engine.now.since(last.at) < 20*time.Second ||
			// it may have given up since, because its plan was too old
			numbered && w.engine.now.since(given) < time.Second
		if p != nil && p.leader != nil {
			t := p.leader.Starting(topology.JobID(id))
			_, firm := p.leader.Slips(topology.JobID(id))
			starts = starts || firm || p.leader.Leaves(topology.JobID(id)) || !t.IsZero() && t != last.token
		}
		if _, lacked := w.uids.lacked[id]; lacked && r.UidToCome {
			starts = true // each pass may start it, and the job declines
		}
		if a.Owes() || r.Promise != nil || starts {
			h.gpus += gpusAsked(r.Spec)
			h.running++
			h.coming += machinesAsked(r.Spec)
		}
	}
	return h
}
