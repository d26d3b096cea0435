// Package straggler decides which ranks of a gang are much slower than the others. The package is pure. It only
// reports: no decision about a job or a node depends on it.
package straggler

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/messages"
)

// This file owns the decision.

const (
	// slowPercent is the time for a step, in percent of the median, above which a rank is slow.
	slowPercent = 120
	// forSteps is the number of steps for which a rank must be slow before it is named.
	forSteps = 20
	// leastRanks is the number of ranks from which the median means something. Of two ranks, either could be the
	// normal one.
	leastRanks = 3
	// maxNamed limits the ranks that are named.
	maxNamed = 16
)

// Pace is how fast one rank of a gang is.
type Pace struct {
	*messages.RankPace
	Node string
}

// Watch follows the ranks of one attempt. The zero Watch knows nothing.
type Watch struct {
	since map[int32]int64 // the step at which each slow rank became slow
	steps map[int32]int64 // the last step of each slow rank
}

// Observe adds the present paces of all ranks that report one. It returns the ranks that have been slow for at least
// forSteps of their own steps: the slowest of them first, and the number of all.
func (w *Watch) Observe(all []Pace) (named []*messages.SlowRank, count int) {
	timeOf := measure(all)
	times := make([]int64, 0, len(all))
	for _, p := range all {
		if us := timeOf(p); us > 0 {
			times = append(times, us)
		}
	}
	median := median(times)
	since, steps := map[int32]int64{}, map[int32]int64{}
	for _, p := range all {
		percent := int64(0)
		if median > 0 {
			percent = timeOf(p) * 100 / median // a time is at most messages.MaxStepUs
		}
		if percent <= slowPercent {
			continue
		}
		began, slow := w.since[p.Rank]
		if !slow || p.Step < w.steps[p.Rank] { // a rank that resumed from an earlier step begins again
			began = p.Step
		}
		since[p.Rank], steps[p.Rank] = began, p.Step
		if p.Step-began >= forSteps {
			named = append(named, &messages.SlowRank{
				Rank: p.Rank, Node: p.Node, Percent: percent, Steps: p.Step - began, StepUs: timeOf(p),
			})
		}
	}
	w.since, w.steps = since, steps
	slices.SortFunc(named, func(a, b *messages.SlowRank) int {
		return cmp.Or(cmp.Compare(b.Percent, a.Percent), cmp.Compare(a.Rank, b.Rank))
	})
	return named[:min(len(named), maxNamed)], len(named)
}

// measure returns the time of a rank that is compared: the rank's own work if every rank reports it, and the time for a
// step otherwise. Ranks that wait for each other in every step need equally long for a step, and only their own work
// differs.
func measure(all []Pace) func(Pace) int64 {
	if slices.ContainsFunc(all, func(p Pace) bool { return p.WorkUs == 0 }) {
		return func(p Pace) int64 { return p.StepUs }
	}
	return func(p Pace) int64 { return p.WorkUs }
}

// median returns the median of the times, or 0 if there are too few. Of an even number, it is the mean of the two in
// the middle.
func median(times []int64) int64 {
	n := len(times)
	if n < leastRanks {
		return 0
	}
	slices.Sort(times)
	return (times[(n-1)/2] + times[n/2]) / 2
}
