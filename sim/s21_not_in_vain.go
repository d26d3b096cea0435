package sim

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// notInVain is S21: no victim in vain. Without any one of them the gang would not fit, by brute force at the moment of
// choice; each is of strictly lower priority in the same queue, or its queue and the others up to where the two meet
// have more than their quotas, though the other victims had gone, for one that stays within its own, or it has run for
// several times as long as one of no lower priority in the same queue is expected to; it has run for minRun; and it was
// stopped for another of its queue at most twice before.
type notInVain struct {
	rule
	began map[topology.Token]instant // when an attempt's first process came to be
	tried map[string]try             // each job's latest attempt that was asked for
	given map[string]instant         // when each job's uid came to disk: it had been started by then
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

// isStoppable reports whether a job runs that may be stopped for another.
func isStoppable(w *World, page *jobPage) bool { return isShared(w, page) && isActive(w, page) }

// awayFromQuota is why it is not judged what is reclaimed for a job.
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
		return // Another leader has written since: the store refuses this, and its writer could not know better.
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

// onChosen looks by which right one was chosen.
func (c *notInVain) onChosen(w *World, job *messages.JobRecord, v *messages.Victim) {
	page, t := w.books.jobs[v.Job], messages.FromToken(v.Token)
	if page == nil || page.record.Spec == nil {
		return // It is over and forgotten. Who is deposed and does not know it may choose it still, and nobody writes that.
	}
	victim := page.record
	changed := victim.Changed != nil || job.Changed != nil // the leader may have had another priority in mind
	switch {
	case v.Rule == messages.PreemptionRule_PREEMPTION_RULE_RECLAIM:
		c.onReclaimed(w, job, victim)
	case victim.Spec.Queue != job.Spec.Queue:
		c.violate(w, "%s of %s gives way by priority to %s of %s", v.Job, victim.Spec.Queue, job.Id, job.Spec.Queue)
	case v.Rule == messages.PreemptionRule_PREEMPTION_RULE_SHORTEST:
		c.onLonger(w, job, victim, t)
	case victim.Spec.Priority >= job.Spec.Priority && !changed:
		c.violate(w, "%s of priority %d gives way to %s of priority %d", v.Job, victim.Spec.Priority, job.Id,
			job.Spec.Priority)
	}
	if victim.Outranked >= 3 && v.Rule != messages.PreemptionRule_PREEMPTION_RULE_RECLAIM {
		c.violate(w, "%s was stopped %d times for others of its queue, and is again", v.Job, victim.Outranked)
	}
	if victim.Spec.NotPreemptible {
		c.violate(w, "%s is not to be stopped, and is chosen for %s", v.Job, job.Id)
	}
	least := time.Duration(0)
	if v.Rule == messages.PreemptionRule_PREEMPTION_RULE_SHORTEST {
		least = time.Hour // where no queue says anything
	}
	for _, q := range w.above(victim.Spec.Queue) {
		if q.MinRunMs != nil {
			least = time.Duration(*q.MinRunMs) * time.Millisecond
			break
		}
	}
	began, ran := c.began[t], w.engine.now.since(c.began[t])
	if least > 0 && (began == 0 || ran < least-least/50-100*time.Millisecond) {
		c.violate(w, "%s is chosen for %s after %s, and its queue gives it %s", v.Job, job.Id, ran, least)
	}
}

// onLonger looks at one that is stopped for a shorter one: it saves its work, is no larger than four times the other,
// and has run for four times as long as that is expected to: as long as it has run already, half an hour if it has not,
// and no longer than its limit. Clocks are a little apart.
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
		c.violate(w, "%s of priority %d gives way to %s of priority %d, which is shorter", victim.Id, victim.Spec.Priority,
			job.Id, job.Spec.Priority)
	case victim.Spec.CheckpointMs == 0:
		c.violate(w, "%s saves nothing, and gives way to %s, which is shorter", victim.Id, job.Id)
	case gpusAsked(victim.Spec) > 4*gpusAsked(job.Spec):
		c.violate(w, "%s gives way to %s, which is much smaller", victim.Id, job.Id)
	case max(usual-ran, ran) < 4*takes-takes/10-time.Second:
		c.violate(w, "%s has run for %s and gives way to %s, which is expected to run for %s", victim.Id, ran, job.Id, takes)
	}
}

// onReclaimed holds the queues of both, up to where they meet, against what they are assured. What is about to be
// committed counts for the victim's, and not for the other's; who is being stopped counts for neither.
func (c *notInVain) onReclaimed(w *World, job, victim *messages.JobRecord) {
	if victim.Spec.Queue == job.Spec.Queue {
		c.violate(w, "%s is reclaimed for %s of the same queue", victim.Id, job.Id)
		return
	}
	if c.awayFromQuota(w, &jobPage{record: job}) != "" {
		return
	}
	goes := map[string]bool{} // with what is stopped for others, and for this one
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
			c.violate(w, "%s is reclaimed for %s, and %s has %d of %d without the others", victim.Id, job.Id, q.Name, has, quota)
		}
	}
	for _, q := range w.above(job.Spec.Queue) {
		quota, has := gpusIn(q.Quota), w.had(q.Name, func(o *messages.JobRecord) bool { return !goes[o.Id] }).gpus
		if quota >= 0 && gpusAsked(job.Spec) > 0 && !w.isIn(victim, q.Name) && has+gpusAsked(job.Spec) > quota {
			c.violate(w, "%s is reclaimed for %s, with which %s has %d of %d", victim.Id, job.Id, q.Name,
				has+gpusAsked(job.Spec), quota)
		}
	}
}

// atMost returns the resources of these jobs in a queue with everything that may have been given to them. Starts of the
// same pass count. Otherwise a queue that the pass brought above its quota would seem to be within it: the promise is
// written before the first Reserve of a start is sent, and only the leader knows of that. Firm promises of the same
// pass that are not on disk yet count as well, and so do starts that it has declined, such as a job without a free uid.
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
			numbered && w.engine.now.since(given) < time.Second // it may have given up since: its plan was too old
		if p != nil && p.leader != nil {
			t := p.leader.Starting(topology.JobID(id))
			_, firm := p.leader.Slips(topology.JobID(id))
			starts = starts || firm || p.leader.Leaves(topology.JobID(id)) || !t.IsZero() && t != last.token
		}
		if _, lacked := w.uids.lacked[id]; lacked && r.UidToCome {
			starts = true // each pass may start it, and it declines
		}
		if a.Owes() || r.Promise != nil || starts {
			h.gpus += gpusAsked(r.Spec)
			h.running++
			h.coming += machinesAsked(r.Spec)
		}
	}
	return h
}
