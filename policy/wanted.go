package policy

import (
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// This file owns which GPUs waiting jobs could use, for people who want to know why one is idle. Nothing is decided by
// it.

// maxFeasible bounds the shapes that are tried on idle machines in one look. A shape beyond it counts as one that fits
// there: few are ever submitted that do not.
const maxFeasible = 16

// Wanted are the GPU types that some waiting job could use and that no limit of its own keeps from it, in order; any:
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
