package policy

// This file owns the time between a change of a firm promise and the moment at which that is on disk. If the leader
// dies then, the next one keeps the earlier place. So that stays kept as well, and nothing of it is lent: what was
// started there might be in the way of what the next leader goes by.

import (
	"cmp"
	"maps"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// leave notes that a firm promise has its place no longer, which may be what is on disk.
func (j *Judgement) leave(job topology.JobID, place topology.Placement) {
	was := j.unwritten[job]
	j.unwritten[job] = append(was[:len(was):len(was)], besides(place.Slots, was)...)
}

// besides are the slots that are not among others. Each of those stands for one.
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

// keepFormer keeps the places that a job was promised before, beside the one that it is promised now and without what
// it has.
func (j *Judgement) keepFormer(
	job topology.JobID, now topology.Placement, has func(topology.NodeID) []topology.Resources,
) {
	if was := j.unwritten[job]; len(was) > 0 {
		j.view.Keep(topology.KeepID(job).Former(), without(topology.Placement{Slots: besides(was, now.Slots)}, has))
	}
}

// keepFormers does so for all jobs at the beginning of a pass.
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

// firmOf is the firm promise of a job; nil: it has none.
func (j *Judgement) firmOf(job topology.JobID) *promise {
	if at := slices.IndexFunc(j.firm, func(p *promise) bool { return p.e.Job == job }); at >= 0 {
		return j.firm[at]
	}
	return j.away[job]
}

// Written says that what was said last of the firm promise of a job is on disk, and reports whether room comes free
// by that.
func (j *Judgement) Written(job topology.JobID) bool {
	kept := len(j.unwritten[job]) > 0
	delete(j.unwritten, job)
	if kept && j.view != nil {
		j.view.Unkeep(topology.KeepID(job).Former())
	}
	return kept
}
