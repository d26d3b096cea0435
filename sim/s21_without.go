package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the brute force of S21: each victim is left out, and the gang must not fit then.

// awayFromTrying is why it is not tried whether a job fits without one of its victims.
func (c *notInVain) awayFromTrying(w *World, page *jobPage) string {
	job := page.record
	if slices.ContainsFunc(job.Promise.GetVictims(), func(v *messages.Victim) bool {
		return c.perhapsOver(w, job, v) && !c.surelyOver(w, job, v)
	}) {
		return "a limit of its queue may be in the way"
	}
	return ""
}

// perhapsOver reports whether a limit may be in the way of a job if one victim stays and the others have gone.
func (c *notInVain) perhapsOver(w *World, job *messages.JobRecord, stays *messages.Victim) bool {
	return c.machinesFor(w, job, stays) < 1 ||
		c.isOver(w, job, 1, func(queue string, these func(*messages.JobRecord) bool) had {
			return c.atMostWith(w, job, stays, queue, these)
		})
}

// atMostWith returns the most that these jobs may have in a queue if one victim stays and the others have gone.
func (c *notInVain) atMostWith(w *World, job *messages.JobRecord, stays *messages.Victim, queue string,
	these func(*messages.JobRecord) bool,
) had {
	goes := othersOf(job, stays)
	return c.atMost(w, queue, func(o *messages.JobRecord) bool { return !goes[o.Id] && these(o) })
}

// machinesFor is to how many machines a job may surely go then by the limits of its queues. To how many others of its
// owner go that have just been started, nobody can say.
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

// surelyOver reports whether a limit is, whatever the leader has started and is about to. What is stopped for others
// counts no more, and where the job would go it may be the owner's already.
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

// othersOf are a job and the others that are stopped for it.
func othersOf(job *messages.JobRecord, stays *messages.Victim) map[string]bool {
	all := map[string]bool{job.Id: true}
	for _, v := range job.Promise.GetVictims() {
		all[v.Job] = v.Job != stays.Job
	}
	return all
}

// isOver reports whether a job that goes to so many machines of others exceeds a limit of its queues, by this count.
func (c *notInVain) isOver(w *World, job *messages.JobRecord, machines int64,
	count func(queue string, these func(*messages.JobRecord) bool) had,
) bool {
	return slices.ContainsFunc(w.above(job.Spec.Queue), func(q *messages.QueueSpec) bool {
		of := func(these func(*messages.JobRecord) bool) had { return count(q.Name, these) }
		return over(q, job, machines, of) != ""
	})
}

// tryWithout leaves out one after the other, on what the leader believes to be free. Nothing can be said where room has
// grown since it chose, where a limit may be in the way, or where something was kept for others at that moment that may
// be kept for them no more: a later pass has started the job, or somebody after it was promised room in the same pass.
// A gang may have been placed as close together as can be: so it is here.
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
			c.violate(w, "%s is stopped in vain: %s fits without that", v.Job, job.Id)
			return
		}
	}
}

// fitsWithout reports whether a job has room on so many machines if one victim stays and the others have gone. What is
// kept for others is theirs, whatever comes free, and where the job could not be prepared it does not go again.
func (w *World) fitsWithout(p *process, job *messages.JobRecord, stays *messages.Victim, most int) bool {
	spec := copyOf(job.Spec)
	if w.ahead() && gpusAsked(spec) > smallest {
		spec.Topology = &messages.TopologySpec{Required: w.draw.Levels[len(w.draw.Levels)-1]}
	} else if preferred := spec.GetTopology().GetPreferred(); preferred != "" && spec.Topology.Required == "" {
		spec.Topology.Required = preferred // it may be patient still
	}
	spec.Exclude = append(spec.Exclude, job.PrepareFailedOn...)
	return w.fitsOn(most, spec, func(m *machine) (topology.Capacity, bool) {
		room, closed, _ := p.leader.View(m.id)
		for _, v := range job.Promise.Victims {
			// What has left a machine is free there already, or another's by now: given back once more it would be room
			// for two, and a victim in vain that is not.
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
