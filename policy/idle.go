package policy

import (
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// This file owns what is said of idle room, for people who want to know why there is some: which GPUs waiting jobs
// could use, and what a Judgement leaves idle on purpose. Nothing is decided by it.

// maxFeasible bounds the shapes that are tried on idle machines in one look. A shape beyond it counts as one that fits
// there: few are ever submitted that do not.
const maxFeasible = 16

// Wanted lists the GPU types that some waiting job could use and that no limit of its own keeps from it, in order; any:
// all of them, because one takes any type. A job that is held, or begins later, is in no queue, and one that has no
// place even among idle machines wants none that is here.
func (q *Queue) Wanted(view *topology.Fabric, stopped func(topology.JobID) bool) (types []string, any bool) {
	left := maxFeasible
	for _, g := range q.list {
		if estimate.TotalOf(&g.gang).MilliGPU == 0 || slices.Contains(types, g.gang.GPUType) ||
			!slices.ContainsFunc(g.jobs, func(e *entry) bool { return !stopped(e.Job) }) {
			continue
		}
		if left--; left >= 0 {
			if ok, _ := topology.Feasible(view, g.gang); !ok {
				continue
			}
		}
		if g.gang.GPUType == "" {
			return nil, true
		}
		types = append(types, g.gang.GPUType)
	}
	slices.Sort(types)
	return types, false
}

// Withholding says why a job waits that has a place on what is free.
type Withholding int

// Of several, the first that holds.
const (
	Headroom Withholding = iota // it would run for long, and enough does already
	Locality                    // it waits for a place that is closer together
	KeptRoom                    // what is free is promised to another
	Quota                       // its queue has enough
	Withholdings
)

// Withheld says of each burst that waits what would keep its first job from starting on what is free, were there a
// place for it. It is true from the end of a pass until the next.
func (j *Judgement) Withheld(say func(gang *topology.Gang, why Withholding)) {
	for _, b := range j.bursts.list {
		if b.waits() {
			say(&b.head.Gang, j.withholding(b))
		}
	}
}

func (j *Judgement) withholding(b *burst) Withholding {
	wide := &b.head.group.outcome
	switch {
	case b.over != nil:
		return Quota
	case j.heldBack(b):
		return Headroom
	case j.isStrict(b, b.head) && (wide.round != j.round || !wide.refused[0].bare):
		return Locality
	}
	return KeptRoom
}
