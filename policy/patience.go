package policy

// This file combines a user's topology wait with planned starts. It compares a place at the preferred level with any
// permitted place after the end of the wait, and uses the earlier one. It must never start a job on a wider place
// before the wait has ended.

import "github.com/yi-json/synapse/topology"

// firstOf returns the earliest time at which a job fits and may start, and the place.
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

// allowedFrom returns the time from which a job may start on its promised place, or 0 for any time. A published latest
// start limits the wait, because under the next leader the wait begins again.
func (j *Judgement) allowedFrom(e *entry, place topology.Placement, bound int64) int64 {
	if !e.group.key.patient || j.view.IsWithin(place, e.Gang.Preferred) {
		return 0
	}
	if bound < topology.Never {
		return min(e.deadlineNs(), bound-settling)
	}
	return e.deadlineNs()
}

// whenFree returns the time when the place of a promise is free and its job may start there. By limits, it is the
// latest such time.
func (j *Judgement) whenFree(p *promise, by topology.Basis, own ...topology.KeepID) int64 {
	at, from := j.horizon.When(p.place, by, own...), j.allowedFrom(p.e, p.place, p.bound)
	if by == topology.ByLimit && from > 0 && from < topology.Never {
		from += settling
	}
	return max(at, from)
}
