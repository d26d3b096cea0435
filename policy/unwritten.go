package policy

// This file handles the time between a change of a firm promise and its record on disk. If the leader dies in between,
// the next leader restores the earlier place. The earlier place therefore stays reserved too, and nothing of it is
// lent. Otherwise a job that starts there could conflict with the next leader's plan.

import (
	"cmp"
	"maps"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// leave records that a firm promise has left a place that may still be on disk.
func (j *Judgement) leave(job topology.JobID, place topology.Placement) {
	was := j.unwritten[job]
	j.unwritten[job] = append(was[:len(was):len(was)], besides(place.Slots, was)...)
}

// besides returns the slots that are not among others. Each of the others cancels one slot.
func besides(slots, others []topology.Slot) (rest []topology.Slot) {
	others = slices.Clone(others)
	for _, s := range slots {
		same := func(o topology.Slot) bool { return o.Node == s.Node && o.Amount == s.Amount }
		if at := slices.IndexFunc(others, same); at >= 0 {
			others = slices.Delete(others, at, at+1)
		} else {
			rest = append(rest, s)
		}
	}
	slices.SortStableFunc(rest, func(a, b topology.Slot) int { return cmp.Compare(a.Node, b.Node) })
	return rest
}

// keepFormer reserves the earlier places of a job's promise, without the current place and without what the job already
// holds.
func (j *Judgement) keepFormer(
	job topology.JobID, now topology.Placement, has func(topology.NodeID) []topology.Resources,
) {
	if was := j.unwritten[job]; len(was) > 0 {
		j.view.Keep(topology.KeepID(job).Former(), without(topology.Placement{Slots: besides(was, now.Slots)}, has))
	}
}

// keepFormers does this for all jobs at the beginning of a pass.
func (j *Judgement) keepFormers() {
	if len(j.unwritten) == 0 {
		return
	}
	for _, job := range slices.Sorted(maps.Keys(j.unwritten)) {
		now := topology.Placement{}
		if p := j.firmOf(job); p != nil {
			now = p.place
		}
		j.keepFormer(job, now, func(n topology.NodeID) []topology.Resources { return j.ends.Held(job, n) })
	}
}

// firmOf returns the firm promise of a job, or nil.
func (j *Judgement) firmOf(job topology.JobID) *promise {
	if at := slices.IndexFunc(j.firm, func(p *promise) bool { return p.e.Job == job }); at >= 0 {
		return j.firm[at]
	}
	return j.away[job]
}

// Written reports that the last state of a job's firm promise is on disk. It returns true if that frees capacity.
func (j *Judgement) Written(job topology.JobID) bool {
	kept := len(j.unwritten[job]) > 0
	delete(j.unwritten, job)
	if kept && j.view != nil {
		j.view.Unkeep(topology.KeepID(job).Former())
	}
	return kept
}
