package policy

import (
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// This file explains idle capacity: the GPUs that waiting jobs could use, and the reasons why a Judgement leaves
// capacity idle. It makes no decisions.

// maxFeasible limits the shapes that are tried on idle nodes in one call. Further shapes count as fitting, because few
// submitted shapes do not fit.
const maxFeasible = 16

// Wanted returns the GPU types that a waiting job could use and that no limit of the job forbids, sorted. The result
// any is true if such a job accepts every type. Jobs that are held or begin later are in no queue. A job that does not
// fit even on idle nodes is ignored.
func (q *Queue) Wanted(view *topology.Tree, stopped func(topology.JobID) bool) (types []string, any bool) {
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

// Withholding is the reason why a job does not start although free capacity exists.
type Withholding int

// If several apply, the first one.
const (
	Headroom Withholding = iota // the job is expected to run long, and enough long jobs already run
	Locality                    // the job waits for a domain of a finer level
	KeptRoom                    // the free capacity is reserved for another job
	Quota                       // the queue has reached a limit
	Withholdings
)

// Withheld calls say for each waiting burst with the reason why its first job would not start even on sufficient free
// capacity. The result is valid from the end of a pass until the next one.
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
