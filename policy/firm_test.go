package policy

// This file tests two properties of the planner: a start guarantee holds, and no job waits forever.

import (
	"flag"
	"math/rand"
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

var seeds = flag.Int("seeds", 0, "how many clusters TestStarve and TestWayOutStarts draw; 0: a few")

// TestFirmBoundsHold checks clusters in which all jobs have limits. Each job must start by the first latest start that
// it was guaranteed, whatever other jobs are submitted. In half of the clusters, all jobs run exactly to their limits.
func TestFirmBoundsHold(t *testing.T) {
	firm, lent := 0, 0
	for seed := range int64(200) {
		r := rand.New(rand.NewSource(seed))
		settings := DefaultSettings()
		settings.GuardPercent = 5 + int64(r.Intn(40))
		settings.PromisesOnes, settings.PromisesGangs = r.Intn(3), r.Intn(4)
		if r.Intn(2) == 0 {
			settings.Locality = 0
		}
		if r.Intn(3) == 0 {
			settings.Order = share.FIFO
		}
		machines := 3 + r.Intn(6)
		s := newStage(t, settings, machines, 1+r.Intn(3))
		acts := drawnHistory(r, 60, machines, true)
		for i := range acts {
			if seed%2 == 0 { // all run exactly to their limits
				acts[i].limit = acts[i].runs
			}
		}
		s.enter(acts...)
		s.play(100_000_000)
		for _, a := range s.cast {
			switch {
			case a.started < 0:
				t.Fatalf("seed %d: %s never began", seed, a.id)
			case a.first == nil:
			case a.first.Bound == topology.Never || a.started > a.first.Bound:
				t.Errorf("seed %d: %s began at %d s, its bound was %d", seed, a.id, a.started/second, a.first.Bound/second)
			default:
				firm++
			}
		}
		lent += s.lent
	}
	if firm < 700 || lent < 60 {
		t.Errorf("%d firm promises were met, and %d jobs were lent what one keeps: that shows nothing", firm, lent)
	}
}

// starving is a cluster of nodes of different sizes under a load of 95% by an endless stream of small jobs. One gang
// needs half of the nodes, and on each as many devices as the smallest of the larger half has. With fewer devices, the
// gang would sometimes start by chance, without any reservation.
type starving struct {
	s        *stage
	gang     *actor
	longest  int64 // longest hard end of a job, in seconds from its start
	work     int64 // hard work of the jobs that were submitted before the gang, in milli-GPU-seconds
	older    int64 // jobs that waited when the gang was submitted
	capacity int64
	r        *rand.Rand
}

func newStarving(t *testing.T, seed int64, settings Settings) *starving {
	r := rand.New(rand.NewSource(seed))
	s := newStage(t, settings, 0, 1)
	x := &starving{s: s, r: r}
	machines := 6 + r.Intn(5)
	gpus := make([]int64, machines)
	for i := range machines {
		m := machine(i, 2)
		gpus[i] = int64(4 + r.Intn(5))
		m.Total.MilliGPU = gpus[i] * topology.WholeGPU
		s.view.Join(m, m.Idle())
		x.capacity += m.Total.MilliGPU
	}
	half := int32((machines + 1) / 2)
	slices.Sort(gpus)
	whole := gpus[machines-int(half)]
	at := x.stream(0, 5000)
	x.gang = s.enter(act{at: at, runs: 500, limit: 600, gang: gang(half, whole)})
	x.longest = 1000 + settling/second
	return x
}

// stream adds small jobs for a time span that need 95% of the GPUs.
func (x *starving) stream(from, until int64) int64 {
	for at := from * 1000; ; {
		gpus, runs := 1+int64(x.r.Intn(3)), 50+int64(x.r.Intn(900))
		if at += gpus * topology.WholeGPU * runs * 1000 * 100 / 95 / x.capacity; at > until*1000 {
			return until
		}
		x.s.enter(act{at: at / 1000, runs: runs, limit: runs + int64(x.r.Intn(50)), gang: gang(1, gpus)})
	}
}

// starts continues until the gang begins or a multiple of its bound has passed. It reports whether the gang began.
func (x *starving) starts(times int64) bool {
	s, begun := x.s, x.gang.at
	s.play(begun)
	for _, a := range s.cast {
		if a != x.gang && s.waits(a) {
			x.older++
			x.work += a.gang.Each.MilliGPU * (a.limit + settling/second)
		}
	}
	x.work += x.owed()
	most := times * x.bound()
	for now := begun; x.gang.began() < 0 && now < begun+most; {
		s.forget()
		now = min(now+500, begun+most)
		x.stream(now-500, now)
		s.play(now)
	}
	return x.gang.began() >= 0
}

// owed returns the amount that the guard owes, including possible charges for jobs that it has started.
func (x *starving) owed() (sum int64) {
	j := x.s.j
	sum = max(0, -j.pools.all[0].credit)
	for id, w := range j.work { //order: only summed
		if w.charged > 0 {
			sum += max(0, w.size*(x.s.runs.jobs[id].Traits.Limit+settling)/second-w.charged)
		}
	}
	return sum
}

// forget removes the jobs that have ended.
func (s *stage) forget() {
	kept := s.cast[:0]
	for _, a := range s.cast {
		if a.over < 0 || a.first != nil {
			kept = append(kept, a)
		}
	}
	s.cast = kept
	s.said = nil
}

// bound returns the latest start of the gang, from the guard's part of the pool and the older jobs.
func (x *starving) bound() int64 {
	return (x.older+1)*x.longest + x.work/(x.capacity*5/100) + 60
}

// TestStarve checks that the gang starts within the bound in every cluster. Without promises it would rarely start.
func TestStarve(t *testing.T) {
	n := 12
	if *seeds > 0 {
		n = *seeds
	}
	settings := DefaultSettings()
	settings.PromisesOnes, settings.PromisesGangs = 0, 0 // only the guard
	for seed := range int64(n) {
		with := settings
		if seed%2 == 0 {
			with = DefaultSettings()
		}
		x := newStarving(t, seed, with)
		if !x.starts(1) {
			t.Errorf("seed %d: the gang has waited for %d s, which is its bound", seed, x.bound())
		}
	}
	without, began := settings, 0
	without.GuardPercent = 0
	tried := max(n/100, 5)
	for seed := range int64(tried) {
		x := newStarving(t, seed, without)
		if x.starts(10) {
			began++
		}
	}
	if began*100 >= max(tried, 100) {
		t.Errorf("without promises the gang began in %d of %d clusters", began, tried)
	}
}
