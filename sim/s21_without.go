package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file checks S21 by brute force: it leaves out each victim, and the gang must not fit.

// awayFromTrying returns why the checker does not try to fit a job without one of its victims.
func (c *notInVain) awayFromTrying(w *World, page *jobPage) string {
	job := page.record
	if slices.ContainsFunc(job.Promise.GetVictims(), func(v *messages.Victim) bool {
		return c.perhapsOver(w, job, v) && !c.surelyOver(w, job, v)
	}) {
		return "a limit of its queue may be in the way"
	}
	return ""
}

// perhapsOver reports whether a limit may block a job if one victim stays and the others have ended.
func (c *notInVain) perhapsOver(w *World, job *messages.JobRecord, stays *messages.Victim) bool {
	return c.machinesFor(w, job, stays) < 1 ||
		c.isOver(w, job, 1, func(queue string, these func(*messages.JobRecord) bool) had {
			return c.atMostWith(w, job, stays, queue, these)
		})
}

// atMostWith returns the most resources that these jobs may have in a queue if one victim stays and the others have
// ended.
func (c *notInVain) atMostWith(w *World, job *messages.JobRecord, stays *messages.Victim, queue string,
	these func(*messages.JobRecord) bool,
) had {
	goes := othersOf(job, stays)
	return c.atMost(w, queue, func(o *messages.JobRecord) bool { return !goes[o.Id] && these(o) })
}

// machinesFor returns to how many nodes the limits of its queues surely allow a job then. The nodes of the owner's
// other jobs that are just starting are unknown.
func (c *notInVain) machinesFor(w *World, job *messages.JobRecord, stays *messages.Victim) int {
	most, isOwn := len(w.machines), func(o *messages.JobRecord) bool { return o.Owner.Known() == job.Owner.Known() }
	for _, q := range w.above(job.Spec.Queue) {
		if q.OwnerMachines == nil {
			continue
		}
		own := c.atMostWith(w, job, stays, q.Name, isOwn)
		if most = min(most, int(*q.OwnerMachines)-len(own.on)); own.coming > 0 {
			most = 0
		}
	}
	return most
}

// surelyOver reports whether a limit surely blocks the job, whatever the leader is starting. Resources of victims no
// longer count, and the job's nodes may already be the owner's.
func (c *notInVain) surelyOver(w *World, job *messages.JobRecord, stays *messages.Victim) bool {
	goes := othersOf(job, stays)
	for _, id := range w.books.ids {
		for _, v := range w.books.jobs[id].record.Promise.GetVictims() {
			goes[v.Job] = goes[v.Job] || id != job.Id
		}
	}
	if p := w.leader(); p != nil && p.leader != nil {
		for _, id := range p.leader.Stopping(job.Promise.Order) {
			goes[string(id)] = true
		}
	}
	return c.isOver(w, job, 0, func(queue string, these func(*messages.JobRecord) bool) had {
		return w.had(queue, func(o *messages.JobRecord) bool { return !goes[o.Id] && these(o) })
	})
}

// othersOf returns a job and its other victims.
func othersOf(job *messages.JobRecord, stays *messages.Victim) map[string]bool {
	all := map[string]bool{job.Id: true}
	for _, v := range job.Promise.GetVictims() {
		all[v.Job] = v.Job != stays.Job
	}
	return all
}

// isOver reports whether a job on so many additional nodes exceeds a limit of its queues, by this count.
func (c *notInVain) isOver(w *World, job *messages.JobRecord, machines int64,
	count func(queue string, these func(*messages.JobRecord) bool) had,
) bool {
	return slices.ContainsFunc(w.above(job.Spec.Queue), func(q *messages.QueueSpec) bool {
		of := func(these func(*messages.JobRecord) bool) had { return count(q.Name, these) }
		return over(q, job, machines, of) != ""
	})
}

// tryWithout leaves out one victim after the other, on the capacity that the leader believes to be free. It judges
// nothing in three cases: capacity has grown since the choice, a limit may block the job, or capacity was reserved for
// others that may be free by now. In the last case a later pass has started the job, or the same pass has reserved
// nodes for a later job. A gang may have been placed as close together as possible, so the check does the same.
func (c *notInVain) tryWithout(w *World, p *process, job *messages.JobRecord) {
	if p == nil || p.leader == nil || p != w.leader() || p.leader.HasGrown() ||
		!p.leader.ChosenNow(topology.JobID(job.Id)) {
		return
	}
	w.count("preemptions.tried", 1)
	for _, v := range job.Promise.Victims {
		if c.perhapsOver(w, job, v) {
			continue
		}
		if w.fitsWithout(p, job, v, c.machinesFor(w, job, v)) {
			c.violate(w, "job %s is preempted unnecessarily: job %s fits without that", v.Job, job.Id)
			return
		}
	}
}

// fitsWithout reports whether a job fits on at most so many nodes if one victim stays and the others have ended.
// Capacity that is reserved for other jobs stays reserved. Nodes on which the job could not be prepared are left out.
func (w *World) fitsWithout(p *process, job *messages.JobRecord, stays *messages.Victim, most int) bool {
	spec := copyOf(job.Spec)
	if w.ahead() && gpusAsked(spec) > smallest {
		spec.Topology = &messages.TopologySpec{Required: w.draw.Levels[len(w.draw.Levels)-1]}
	} else if preferred := spec.GetTopology().GetPreferred(); preferred != "" && spec.Topology.Required == "" {
		spec.Topology.Required = preferred // it may still wait for close nodes
	}
	spec.Exclude = append(spec.Exclude, job.PrepareFailedOn...)
	return w.fitsOn(most, spec, func(m *machine) (topology.Capacity, bool) {
		room, closed, _ := p.leader.View(m.id)
		for _, v := range job.Promise.Victims {
			// Capacity that a victim has left is already free, or used again. If it were counted twice, a
			// justified preemption would seem unnecessary.
			if a := w.books.attempts[messages.FromToken(v.Token)]; v != stays && a != nil && !w.hasLeft(a, string(m.id)) {
				for _, place := range a.Places {
					if place.Node == string(m.id) {
						room = room.More(messages.FromResources(place.Grant.Amount))
					}
				}
			}
		}
		room = room.Less(p.leader.KeptForOthers(m.id, topology.JobID(job.Id)))
		return leftOf(room), closed == "" && w.open(m)
	})
}
