package policy

// This file owns what the patience of a job's user makes of the times that it is promised: what comes first of a place
// at its preferred level, and of any place that is permitted from the end of its patience on. It must never have a job
// start wider than that while it is patient.

import "github.com/yi-json/synapse/topology"

// firstOf is the first instant at which a job has room where it may start then, and where that is.
func (j *Judgement) firstOf(e *entry, by topology.Basis) (at int64, place topology.Placement, ok bool) {
	gang := e.group.wanted(j.view)
	at, place, ok = j.earliest(&gang, by)
	if !e.group.key.patient || ok && at <= e.deadlineNs() {
		return at, place, ok
	}
	gang.Required = e.group.gang.Required
	wide, widePlace, _ := j.earliest(&gang, by)
	if wide = max(wide, e.deadlineNs()); len(widePlace.Slots) == 0 || wide == topology.Never || ok && wide >= at {
		return at, place, ok
	}
	return wide, widePlace, true
}

// allowedFrom is from when a job may start on a place that is promised to it; 0: at any time. A latest time that it was
// told holds whatever its patience: with a next leader that begins again.
func (j *Judgement) allowedFrom(e *entry, place topology.Placement, bound int64) int64 {
	if !e.group.key.patient || j.view.IsWithin(place, e.Gang.Preferred) {
		return 0
	}
	if bound < topology.Never {
		return min(e.deadlineNs(), bound-settling)
	}
	return e.deadlineNs()
}

// whenFree is when a promise's place is free and its job may start there: by limits, when it will have at the latest.
func (j *Judgement) whenFree(p *promise, by topology.Basis, own ...topology.KeepID) int64 {
	at, from := j.horizon.When(p.place, by, own...), j.allowedFrom(p.e, p.place, p.bound)
	if by == topology.ByLimit && from > 0 && from < topology.Never {
		from += settling
	}
	return max(at, from)
}
