package replay

import (
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/topology"
)

// This file owns the parts of the GPUs that idle while a waiting job has a place on them: what the planner says that it
// keeps them for. What idles at one time for several reasons is shared among the bursts that have a place.

// withheld counts, by what the planner says, the bursts that have a place on what is free and do not start.
type withheld struct {
	ground *ground
	ask    func(say func(*topology.Gang, policy.Withholding))
	passes *int // of the planner so far
	looked int  // after how many passes these were counted
	free   int  // and with how many GPUs free
	number [policy.Withholdings]int
	sum    int

	idle  [policy.Withholdings]float64 // GPU-seconds
	other float64                      // for which the planner names no reason
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

// shapeOfGang is the shape of a gang as specOf made it.
func shapeOfGang(g *topology.Gang) shape {
	if g.Split == topology.SplitWhole {
		return shape{gpus: int(g.Total.MilliGPU / topology.WholeGPU)}
	}
	return shape{gpus: int(g.Each.MilliGPU/topology.WholeGPU) * int(g.Replicas), tasks: int(g.Replicas)}
}

// parts are shares of all GPUs over the whole run; nil where the planner does not say.
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
