package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns jobs that say how long they take, as a planner that looks ahead meets them: in a third of the seeds
// all of them have a time limit, in another half of them, and in the last none. Some take longer than they say, and
// some have an image that is slow to come: half of them where the world is crowded, and there it takes longer.

// limits draws what a job says of itself, and how long its image takes.
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

// whole has most small jobs want all GPUs of a machine: what fits into any gap is never lent anything.
func (w *World) whole(each *messages.Resources) {
	if w.draw.Crowded && w.limiting.chance(0.75) {
		each.MilliGpu = 8 * topology.WholeGPU
	}
}

// greedy has some gangs name no memory, and so have all of a machine's: what needs no GPU then has no room beside a
// gang.
func (w *World) greedy(each *messages.Resources) {
	if w.draw.Crowded && each != nil && w.limiting.chance(0.4) {
		each.MemoryBytes = 0
	}
}
