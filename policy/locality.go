package policy

// This file owns how close together a gang is placed if its user says nothing: within one rack, or block, if the
// machines in service of one could hold it. The gang waits for that, but only until a bound that nothing extends; then
// it starts wherever it can. It must never wait for a place that only machines out of service would make.

import (
	"cmp"

	"github.com/yi-json/synapse/topology"
)

// nearness holds what is known of a group on the present nodes.
type nearness struct {
	known    bool
	possible bool // on all machines, those out of service among them

	found   bool
	serving uint64 // the view's, when the level was found
	level   string // the finest at which machines in service could hold the gang; "": there is nothing to wait for
}

// isPossible reports whether a gang could ever run here.
func (j *Judgement) isPossible(g *group) bool {
	n := &g.close
	if !n.known {
		n.known = true
		n.possible, _ = topology.Feasible(j.view, g.gang)
	}
	return n.possible
}

// closest is the finest level at which one place could hold a gang; "": there is nothing to wait for.
func (j *Judgement) closest(g *group) string {
	n := &g.close
	if serving := j.view.Serving(); !n.found || n.serving != serving {
		n.found, n.serving, n.level = true, serving, closestIn(j.view, g.gang)
	}
	return n.level
}

// closestIn is closest for any gang.
func closestIn(view *topology.Fabric, gang topology.Gang) string {
	if gang.Preferred != "" { // its user says for what it waits
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

// isStrict reports whether a job waits for a place that is as close together as can be.
func (j *Judgement) isStrict(b *burst, e *entry) bool {
	if !b.gang || j.settings.Locality == 0 || j.closest(e.group) == "" {
		return false
	}
	return e.declined == 0 || j.now < j.patientUntil(e, e.declined)
}

// patientUntil is until when a job waits for a place close together that could have started elsewhere at an instant:
// half as long as it had waited by then, and no longer than LocalityMost.
func (j *Judgement) patientUntil(e *entry, declined int64) int64 {
	half := min((declined-e.Since)/2, int64(j.settings.LocalityMost))
	return declined + max(int64(j.settings.Locality), half)
}

// decline notes that a job could start now, and does not because it would be spread too wide.
func (j *Judgement) decline(b *burst, e *entry) {
	if e.declined == 0 {
		if _, ok := j.place(e.group, false, topology.Lent{}); !ok {
			return
		}
		e.declined = j.now
	}
	j.wakeAt(j.patientUntil(e, e.declined))
}

// placeUnkept is a place that no promise keeps, however wide.
func (j *Judgement) placeUnkept(e *entry) (topology.Placement, bool) {
	return j.place(e.group, false, topology.Lent{})
}

// soonest is when a job can start, and where: close together, or wider once its patience will be over, whichever is
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

// earliest asks the horizon, which need not search again where nothing has changed that matters.
func (j *Judgement) earliest(gang *topology.Gang, by topology.Basis) (int64, topology.Placement, bool) {
	if j.forgetful {
		return j.horizon.Earliest(gang, j.now, by)
	}
	return j.horizon.EarliestAgain(gang, j.now, by, &j.found)
}
