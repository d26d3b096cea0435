package policy

// This file tests probes, and the grouping of similar jobs.

import (
	"math"
	"testing"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// TestProbe checks that the first of many similar jobs runs before a job with a shorter estimate, and no second one
// with it. When it has shown that such jobs are short, the others run. The same holds with queues. Gangs are not
// probed.
func TestProbe(t *testing.T) {
	for _, queues := range []bool{false, true} {
		for _, gangs := range []int32{1, 2} {
			settings := simple()
			settings.GuardPercent, settings.PromisesOnes, settings.PromisesGangs = 0, 0, 0
			s := newStage(t, settings, 2*int(gangs), 1)
			if queues {
				s.j.Obey(&share.Queues{Default: "all", Queues: []share.QueueSpec{{Name: "all"}}})
			}
			for range 2 {
				s.enter(act{runs: 100, limit: 100, gang: wholes(gangs), owner: "x"})
			}
			many := len(s.cast)
			for range 25 {
				s.enter(act{at: 1, runs: 50, gang: wholes(gangs), owner: "a"})
			}
			quick := s.enter(act{at: 2, runs: 250, limit: 250, gang: wholes(gangs), owner: "b"})
			other := s.enter(act{at: 2, runs: 250, limit: 250, gang: wholes(gangs), owner: "c"})
			s.play(10_000)
			first, second := s.cast[many].began(), s.cast[many+1].began()
			if gangs > 1 {
				if quick.began() != 100 || other.began() != 100 {
					t.Errorf("queues %v: the gangs that are quicker began at %d and %d", queues, quick.began(), other.began())
				}
				continue
			}
			if first != 100 || quick.began() != 100 || second != 150 || other.began() < 150 {
				t.Errorf("queues %v: the probe began at %d, the next one at %d, and those that are quicker at %d and %d",
					queues, first, second, quick.began(), other.began())
			}
			if last := s.cast[many+24].began(); last > other.began() {
				t.Errorf("queues %v: the last of the many began at %d, and what takes longer at %d", queues, last, other.began())
			}
		}
	}
}

// TestProbeOnce checks that no other job of the burst gets an early turn before the probe has ended.
func TestProbeOnce(t *testing.T) {
	settings := simple()
	settings.GuardPercent, settings.PromisesOnes = 0, 0
	s := newStage(t, settings, 2, 1)
	for _, runs := range []int64{100, 200} {
		s.enter(act{runs: runs, limit: runs, gang: wholes(1), owner: "x"})
	}
	probe := s.enter(act{at: 1, runs: 3000, gang: wholes(1), owner: "a"})
	for range 24 {
		s.enter(act{at: 1, runs: 3000, gang: wholes(1), owner: "a"})
	}
	quick := s.enter(act{at: 2, runs: 250, limit: 250, gang: wholes(1), owner: "b"})
	s.play(500)
	if probe.began() != 100 || quick.began() != 200 {
		t.Errorf("the probe began at %d, and what is quicker at %d", probe.began(), quick.began())
	}
}

// TestProbeWaits checks that a probe which could not start early has its turn at the regular position of its burst, and
// gets a promise there.
func TestProbeWaits(t *testing.T) {
	for _, queues := range []bool{false, true} {
		settings := simple()
		settings.GuardPercent = 0
		s := newStage(t, settings, 1, 1)
		if queues {
			s.j.Obey(&share.Queues{Default: "all", Queues: []share.QueueSpec{{Name: "all"}}})
		}
		s.enter(act{runs: 100, limit: 100, gang: wholes(1), owner: "x"})
		alike := act{at: 1, runs: 50, gang: wholes(1), owner: "a"}
		waits := s.enter(alike, alike)
		s.play(10)
		if _, ok := s.j.Promised(waits.id); !ok {
			t.Errorf("queues %v: it is promised nothing", queues)
		}
	}
}

// TestAlike checks which jobs join one burst: within ten minutes if they have an owner or a name or are gangs, and
// otherwise within ten seconds.
func TestAlike(t *testing.T) {
	for _, c := range []struct {
		owner, name string
		machines    int32
		apart       int64
		one         bool
	}{
		{"a", "", 1, 600, true}, {"a", "", 1, 601, false}, {"", "train-1", 1, 600, true}, {"", "", 2, 600, true},
		{"", "", 1, 10, true}, {"", "", 1, 11, false}, {"", "", 2, 601, false},
	} {
		s := newStage(t, simple(), int(c.machines), 1)
		s.enter(act{runs: 5000, gang: wholes(c.machines), owner: "x"})
		s.play(1)
		var all []*entry
		for i := range int64(2) {
			id := topology.JobID([]string{"first", "second"}[i])
			s.queue.Add(Waiting{
				Job: id, Gang: wholes(c.machines), Arrived: 1 + i, Since: s.now + i*c.apart*second, Owner: c.owner, Name: c.name,
			})
			s.j.Plan(s.view, s.queue, s.now+i*c.apart*second)
			all = append(all, s.queue.jobs[id])
		}
		if one := all[0].burst == all[1].burst; one != c.one {
			t.Errorf("%+v: one burst: %v", c, one)
		}
	}
}

// TestSmallFirst checks that of two jobs with equal estimates the smaller one runs first, although it arrived later.
func TestSmallFirst(t *testing.T) {
	settings := simple()
	settings.GuardPercent = 0
	s := newStage(t, settings, 1, 1)
	s.enter(act{runs: 100, limit: 100, gang: wholes(1), owner: "x"})
	large := s.enter(act{at: 1, runs: 500, limit: 500, gang: gang(1, 6), owner: "a"})
	small := s.enter(act{at: 2, runs: 500, limit: 500, gang: gang(1, 4), owner: "b"})
	s.play(10_000)
	if small.began() != 100 || large.began() != 600 {
		t.Errorf("the small one began at %d and the large one at %d", small.began(), large.began())
	}
}

// TestRootOf checks that a root in thousandths is at most the exact one, within a thousandth of it, and never zero.
func TestRootOf(t *testing.T) {
	const most = math.MaxInt64 / 1000
	for _, amount := range []int64{1, 2, 250, 1000, 1001, 4000, 8000, 64_000, 123_456_789, most, math.MaxInt64} {
		root, exact := rootOf(amount), math.Sqrt(float64(min(amount, most))*1000)
		if root < 1 || math.Abs(float64(root)-exact) > 1 {
			t.Errorf("of %d it is %d, and %f is right", amount, root, exact)
		}
	}
	if rootOf(4000) != 2000 || rootOf(1000) != 1000 {
		t.Errorf("of four it is %d, of one %d", rootOf(4000), rootOf(1000))
	}
}
