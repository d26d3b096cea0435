package policy

// This file owns how close together a gang is placed where its user says nothing: within one rack, or block, if one
// could ever hold it, for some time; then wherever it can be.

import (
	"cmp"

	"github.com/yi-json/synapse/topology"
)

// nearness is what is known of a group on the machines that there are.
type nearness struct {
	known    bool
	possible bool
	level    string // the finest at which one place could hold the gang; "" where that is nothing to wait for
}

// nearnessOf finds whether a gang could ever run here, and how close together.
func (j *Judgement) nearnessOf(g *group) *nearness {
	n := &g.close
	if n.known {
		return n
	}
	*n = nearnessIn(j.view, g.gang)
	return n
}

// nearnessIn is the same for any gang.
func nearnessIn(view *topology.Fabric, gang topology.Gang) nearness {
	n, asked := nearness{known: true}, gang.Required
	n.possible, _ = topology.Feasible(view, gang)
	levels := view.Levels()
	for i := len(levels) - 2; i >= 0 && n.possible && n.level == "" && gang.Preferred == ""; i-- {
		if !view.Finer(levels[i], asked) {
			break
		}
		gang.Required = levels[i]
		if ok, _ := topology.Feasible(view, gang); ok {
			n.level = levels[i]
		}
	}
	return n
}

func (j *Judgement) isPossible(g *group) bool { return j.nearnessOf(g).possible }

// isStrict reports whether a job waits for a place that is as close together as can be.
func (j *Judgement) isStrict(b *burst, e *entry) bool {
	if !b.gang || j.settings.Locality == 0 || j.nearnessOf(e.group).level == "" {
		return false
	}
	return e.declined == 0 || j.now < j.patientUntil(e, e.declined)
}

// patientUntil is until when a job waits for a place close together that could have started elsewhere at an instant.
func (j *Judgement) patientUntil(e *entry, declined int64) int64 {
	return declined + max(int64(j.settings.Locality), (declined-e.Since)/2)
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
	gang.Required = e.group.close.level
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
