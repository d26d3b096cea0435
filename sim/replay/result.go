package replay

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/yi-json/synapse/sim/record"
)

// This file computes the results of a run.

// classes lists the sizes of jobs with separate results, by their largest number of GPUs.
var classes = []struct {
	name string
	most int
}{{"1", 1}, {"2-4", 4}, {"5-8", 8}, {"9+", 1 << 62}}

func classOf(gpus int) string {
	return classes[slices.IndexFunc(classes, func(c struct {
		name string
		most int
	}) bool {
		return gpus <= c.most
	})].name
}

// slowdownBound is the shortest run time that a slowdown is divided by. Without it, jobs of seconds decide the mean.
const slowdownBound = 10 * time.Minute

// linesShown is the number of gangs that never fit and are listed.
const linesShown = 100

// result computes the results of a run.
func (r *run) result() *record.Result {
	out := &record.Result{Policy: r.o.Policy, Seed: r.o.Seed, TraceHash: r.w.TraceHash(), TooBigLines: []int{},
		Classes: []record.Class{}, Queues: []record.Queue{}}
	all, multi, real := &tally{}, &tally{}, &tally{}
	byClass, byQueue := map[string]*tally{}, map[string]*tally{}
	var span time.Duration
	least, told := 0, 0
	for i, j := range r.jobs {
		if r.tooBig[i] {
			if out.TooBig++; out.TooBig <= linesShown {
				out.TooBigLines = append(out.TooBigLines, j.Line)
			}
			continue
		}
		l := &r.lives[i]
		span = j.Submit
		wait, over := r.waited(i).Seconds(), l.ended >= 0
		for _, t := range []*tally{all, of(byClass, classOf(j.GPUs)), of(byQueue, j.Queue)} {
			t.add(wait, j.Duration.Seconds(), over)
		}
		real.add(j.Waited.Seconds(), j.Duration.Seconds(), true)
		if j.HasWaited {
			told++
		}
		if over && j.GPUs > r.o.Cluster.Largest() {
			multi.add(wait, j.Duration.Seconds(), true)
			if r.isNear(i) {
				least++
			}
		}
	}
	out.Waits = all.figures()
	if told > 0 && told == out.Jobs {
		waits := real.figures()
		out.Real = &waits
	}
	if n := len(multi.waits); n > 0 {
		avg, rack := multi.figures().WaitAvg, float64(least)/float64(n)
		out.WaitMultiAvg, out.Rack = &avg, &rack
	}
	for _, c := range classes {
		if t := byClass[c.name]; t != nil {
			out.Classes = append(out.Classes, record.Class{GPUs: c.name, Waits: t.figures()})
		}
	}
	if len(multi.waits) > 0 {
		out.Classes = append(out.Classes, record.Class{GPUs: record.MultiNode, Waits: multi.figures()})
	}
	for _, q := range sortedNames(byQueue) {
		out.Queues = append(out.Queues, record.Queue{Queue: q, Waits: byQueue[q].figures()})
	}
	r.shares(out, span)
	if r.seen != nil {
		r.seen.promises(out)
	}
	if r.o.Preempt {
		out.Preemptions, out.LostGPUH = r.stops()
	}
	out.Picture = r.picture()
	return out
}

// isNear reports whether a job has run in the fewest possible racks.
func (r *run) isNear(i int) bool {
	return len(r.lives[i].racks) == r.census.ground.fewestRacks(shapeOf(r.jobs[i]))
}

// shares computes the share of the GPUs in use, and the share that was free although a job waited.
func (r *run) shares(out *record.Result, span time.Duration) {
	gpus := float64(r.o.Cluster.Sum())
	if span = min(span, r.ran); span > 0 {
		out.Util = r.usedBy(span) / gpus / span.Seconds()
	}
	if r.ran > 0 {
		out.IdleFitParts = r.census.withheld.parts(gpus * r.ran.Seconds())
		out.Frag, out.IdleFit = r.census.stuck/gpus/r.ran.Seconds(), r.census.idleFit/gpus/r.ran.Seconds()
	}
	if r.passes > 0 {
		out.PassMeanUs = float64(r.passing.Microseconds()) / float64(r.passes)
	}
}

// usedBy returns the GPU-seconds used until a time.
func (r *run) usedBy(span time.Duration) float64 {
	var used float64
	for i, j := range r.jobs {
		for _, s := range r.shiftsOf(i) {
			used += max(0, min(s.to, span)-min(s.from, span)).Seconds() * float64(j.GPUs)
		}
	}
	return used
}

// tally gathers the waiting times of some jobs.
type tally struct {
	waits []float64 // of finished jobs
	slow  []float64 // their bounded slowdowns
	took  float64   // sum of the times from submit to end
	open  int       // number of unfinished jobs
}

// of returns the tally of a name.
func of[K comparable](all map[K]*tally, name K) *tally {
	if all[name] == nil {
		all[name] = &tally{}
	}
	return all[name]
}

func sortedNames(all map[string]*tally) []string { return slices.Sorted(maps.Keys(all)) }

func (t *tally) add(wait, duration float64, over bool) {
	if !over {
		t.open++
		return
	}
	t.waits = append(t.waits, wait)
	t.slow = append(t.slow, (wait+duration)/max(duration, slowdownBound.Seconds()))
	t.took += wait + duration
}

func (t *tally) figures() record.Waits {
	n := len(t.waits)
	out := record.Waits{Jobs: n + t.open, Unfinished: t.open}
	if n == 0 {
		return out
	}
	out.WaitAvg, out.JCTAvg = mean(t.waits), t.took/float64(n)
	slices.Sort(t.waits)
	out.WaitP95, out.WaitP99, out.WaitMax = percentile(t.waits, 0.95), percentile(t.waits, 0.99), t.waits[n-1]
	slices.Sort(t.slow)
	out.SlowdownAvg, out.SlowdownP95 = mean(t.slow), percentile(t.slow, 0.95)
	return out
}

// fewest returns the smallest number of racks that hold this many GPUs, by the GPUs of each rack.
func fewest(holds []int, wanted int) int {
	slices.SortFunc(holds, func(a, b int) int { return cmp.Compare(b, a) })
	for i, n := range holds {
		if wanted -= n; wanted <= 0 {
			return i + 1
		}
	}
	return len(holds)
}

func mean(of []float64) float64 {
	var sum float64
	for _, x := range of {
		sum += x
	}
	return sum / float64(len(of))
}

// percentile returns a percentile of a sorted list.
func percentile(sorted []float64, p float64) float64 {
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
