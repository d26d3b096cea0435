package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file draws jobs that state their duration, for planners that look ahead. In a third of the seeds all jobs have a
// time limit, in another third half of them, and in the last third none. Some jobs take longer than they state, and
// some have a slow image. In a crowded world half of the images are slow, and slower.

// limits draws a job's stated duration and the duration of its image pull.
func (w *World) limits(spec *messages.JobSpec, run *script) {
	s := w.limiting
	spec.TimeLimitMs = 0
	if share := []float64{1, 0.5, 0}[w.opts.Seed%3]; s.chance(share) {
		spec.TimeLimitMs = (run.run + s.between(time.Second, max(run.run, 2*time.Second))).Milliseconds()
		if s.chance(0.1) {
			run.run *= 3
		}
	}
	switch {
	case w.draw.Crowded && s.chance(0.5):
		run.image = s.between(6*time.Second, 2*w.draw.ShortRun)
	case !w.draw.Crowded && s.chance(0.4):
		run.image = s.skewed(6*time.Second, 2*time.Minute)
	}
	spec.PrepareTimeoutMs += run.image.Milliseconds()
}

// whole makes most small jobs request all GPUs of a node, because a job that fits into any gap is never backfilled.
func (w *World) whole(each *messages.Resources) {
	if w.draw.Crowded && w.limiting.chance(0.75) {
		each.MilliGpu = 8 * topology.WholeGPU
	}
}

// greedy removes the memory request of some gangs, so that they get all memory of a node. Jobs without GPUs then do not
// fit next to such a gang.
func (w *World) greedy(each *messages.Resources) {
	if w.draw.Crowded && each != nil && w.limiting.chance(0.4) {
		each.MemoryBytes = 0
	}
}
