package replay

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/sim/record"
)

// This file owns how the figures of a run are found.

// result sums a run up.
func (r *run) result() *record.Result {
	out := &record.Result{Policy: r.o.Policy, Jobs: len(r.jobs) - len(r.tooBig), TooBig: len(r.tooBig), TraceHash: r.w.TraceHash()}
	var waits, multi []float64
	var last, span time.Duration
	var jct float64
	least := 0
	for i, j := range r.jobs {
		l := r.lives[i]
		if j.GPUs > r.census.room.Machines()*r.o.GPUs {
			continue
		}
		span = j.Submit
		if l.ended < 0 {
			out.Unfinished++
			continue
		}
		wait := (l.started - j.Submit).Seconds()
		waits = append(waits, wait)
		jct += wait + j.Duration.Seconds()
		last = max(last, l.ended)
		if j.GPUs > r.o.GPUs {
			multi = append(multi, wait)
			if len(l.racks) == fewestRacks(r.o.Racks, r.o.GPUs, j.GPUs) {
				least++
			}
		}
	}
	if len(waits) == 0 {
		return out
	}
	out.WaitAvg, out.JCTAvg = mean(waits), jct/float64(len(waits))
	slices.Sort(waits)
	out.WaitP95, out.WaitP99, out.WaitMax = percentile(waits, 0.95), percentile(waits, 0.99), waits[len(waits)-1]
	if len(multi) > 0 {
		avg, rack := mean(multi), float64(least)/float64(len(multi))
		out.WaitMultiAvg, out.Rack = &avg, &rack
	}
	gpus := float64(r.census.room.Machines() * r.o.GPUs)
	if span > 0 {
		out.Util = r.usedBy(span) / gpus / span.Seconds()
	}
	if last > 0 {
		out.Frag, out.IdleFit = r.census.stuck/gpus/last.Seconds(), r.census.idleFit/gpus/last.Seconds()
	}
	if r.passes > 0 {
		out.PassMeanUs = float64(r.passing.Microseconds()) / float64(r.passes)
	}
	return out
}

// usedBy is the GPU-seconds used until a time.
func (r *run) usedBy(span time.Duration) float64 {
	var used float64
	for i, j := range r.jobs {
		if l := r.lives[i]; l.started >= 0 {
			used += max(0, min(l.started+j.Duration, span)-min(l.started, span)).Seconds() * float64(j.GPUs)
		}
	}
	return used
}

// fewestRacks is in how few racks of an empty cluster a gang has room.
func fewestRacks(racks []int, gpus, gang int) int {
	machines := (gang + gpus - 1) / gpus
	largest := slices.Clone(racks)
	slices.SortFunc(largest, func(a, b int) int { return b - a })
	for i, n := range largest {
		if machines -= n; machines <= 0 {
			return i + 1
		}
	}
	return len(racks)
}

func mean(of []float64) float64 {
	var sum float64
	for _, x := range of {
		sum += x
	}
	return sum / float64(len(of))
}

// percentile is of a sorted list.
func percentile(sorted []float64, p float64) float64 {
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
