package replay

import (
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/topology"
)

// This file splits the idle GPU time while a waiting job fits, by the planner's reasons. If there are several reasons
// at one time, the idle time is divided among the bursts that fit.

// withheld counts, by the planner's reasons, the bursts that fit on the free GPUs and do not start.
type withheld struct {
	ground *ground
	ask    func(say func(*topology.Gang, policy.Withholding))
	passes *int // passes of the planner so far
	looked int  // pass after which the bursts were last counted
	free   int  // free GPUs at the last count
	number [policy.Withholdings]int
	sum    int

	idle  [policy.Withholdings]float64 // GPU-seconds
	other float64                      // GPU-seconds without a reason of the planner
}

// add counts GPU-seconds that have just passed.
func (w *withheld) add(gpuSeconds float64) {
	if w == nil {
		return
	}
	if w.looked != *w.passes || w.free != w.ground.sum {
		w.look()
	}
	if w.sum == 0 {
		w.other += gpuSeconds
		return
	}
	for why, n := range w.number {
		w.idle[why] += gpuSeconds * float64(n) / float64(w.sum)
	}
}

func (w *withheld) look() {
	w.looked, w.free, w.sum = *w.passes, w.ground.sum, 0
	clear(w.number[:])
	w.ask(func(g *topology.Gang, why policy.Withholding) {
		if w.ground.fits(shapeOfGang(g)) {
			w.number[why]++
			w.sum++
		}
	})
}

// shapeOfGang returns the shape of a gang as specOf made it.
func shapeOfGang(g *topology.Gang) shape {
	if g.Split == topology.SplitWhole {
		return shape{gpus: int(g.Total.MilliGPU / topology.WholeGPU)}
	}
	return shape{gpus: int(g.Each.MilliGPU/topology.WholeGPU) * int(g.Replicas), tasks: int(g.Replicas)}
}

// parts returns shares of all GPUs over the whole run, or nil if the planner gives no reasons.
func (w *withheld) parts(gpuSeconds float64) *record.IdleParts {
	if w == nil || gpuSeconds == 0 {
		return nil
	}
	return &record.IdleParts{
		Headroom: w.idle[policy.Headroom] / gpuSeconds, Locality: w.idle[policy.Locality] / gpuSeconds,
		KeptRoom: w.idle[policy.KeptRoom] / gpuSeconds, Quota: w.idle[policy.Quota] / gpuSeconds,
		Other: w.other / gpuSeconds,
	}
}
