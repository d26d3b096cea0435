package policy

// This file decides how close together a gang is placed if the user sets no level. The gang is placed within one rack
// or block if the schedulable nodes of one could hold it. The gang waits for such a place up to a fixed limit, and then
// starts anywhere. It never waits for a place that would need unschedulable nodes.

import (
	"cmp"

	"github.com/yi-json/synapse/topology"
)

// nearness holds what is known of a group on the present nodes.
type nearness struct {
	known    bool
	possible bool // on all nodes, including unschedulable ones

	found   bool
	serving uint64 // Serving of the view when level was computed
	level   string // the finest level with a domain whose schedulable nodes could hold the gang; "": no wait
}

// isPossible reports whether a gang could ever run on this cluster.
func (j *Judgement) isPossible(g *group) bool {
	n := &g.close
	if !n.known {
		n.known = true
		n.possible, _ = topology.Feasible(j.view, g.gang)
	}
	return n.possible
}

// closest returns the finest level with one domain that could hold a gang, or "" if the gang need not wait.
func (j *Judgement) closest(g *group) string {
	n := &g.close
	if serving := j.view.Serving(); !n.found || n.serving != serving {
		n.found, n.serving, n.level = true, serving, closestIn(j.view, g.gang)
	}
	return n.level
}

// closestIn is closest for any gang.
func closestIn(view *topology.Tree, gang topology.Gang) string {
	if gang.Preferred != "" { // the user has set the level
		return ""
	}
	levels, asked := view.Levels(), gang.Required
	for i := len(levels) - 2; i >= 0 && view.Finer(levels[i], asked); i-- {
		if gang.Required = levels[i]; topology.InService(view, &gang) {
			return levels[i]
		}
	}
	return ""
}

// isStrict reports whether a job waits for a place at the finest possible level.
func (j *Judgement) isStrict(b *burst, e *entry) bool {
	if !b.gang || j.settings.Locality == 0 || j.closest(e.group) == "" {
		return false
	}
	return e.declined == 0 || j.now < j.patientUntil(e, e.declined)
}

// patientUntil returns the time until which a job waits for a close place, if it could have started elsewhere at
// declined. The wait is half of the time that the job had waited before, and at most LocalityMost.
func (j *Judgement) patientUntil(e *entry, declined int64) int64 {
	half := min((declined-e.Since)/2, int64(j.settings.LocalityMost))
	return declined + max(int64(j.settings.Locality), half)
}

// decline records that a job could start now but waits for a closer place.
func (j *Judgement) decline(b *burst, e *entry) {
	if e.declined == 0 {
		if _, ok := j.place(e.group, false, topology.Lent{}); !ok {
			return
		}
		e.declined = j.now
	}
	j.wakeAt(j.patientUntil(e, e.declined))
}

// placeUnkept returns a place on unreserved capacity, at any level.
func (j *Judgement) placeUnkept(e *entry) (topology.Placement, bool) {
	return j.place(e.group, false, topology.Lent{})
}

// soonest returns the earliest start of a job and its place: a close place, or any place after the wait, whichever is
// earlier.
func (j *Judgement) soonest(b *burst, e *entry) (int64, topology.Placement, bool) {
	wide, widePlace, wideOk := j.firstOf(e, topology.ByEstimate)
	if !j.isStrict(b, e) {
		return wide, widePlace, wideOk
	}
	gang := e.group.wanted(j.view)
	gang.Required = j.closest(e.group)
	at, place, ok := j.earliest(&gang, topology.ByEstimate)
	if !wideOk {
		return at, place, ok
	}
	declined := e.declined
	if declined == 0 {
		declined = wide
	}
	if until := max(wide, j.patientUntil(e, declined)); !ok || cmp.Compare(until, at) < 0 {
		return until, widePlace, true
	}
	return at, place, true
}

// earliest asks the horizon, and reuses an answer of the last pass if it is still valid.
func (j *Judgement) earliest(gang *topology.Gang, by topology.Basis) (int64, topology.Placement, bool) {
	if j.forgetful {
		return j.horizon.Earliest(gang, j.now, by)
	}
	return j.horizon.EarliestAgain(gang, j.now, by, &j.found)
}
