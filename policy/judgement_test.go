package policy

// This file tests the planner that looks ahead with small histories whose result is known.

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// simple returns settings without a share for short jobs and without a topology wait.
func simple() Settings {
	s := DefaultSettings()
	s.HeadroomPercent, s.Locality = 0, 0
	return s
}

func began(t *testing.T, want map[*actor]int64) {
	t.Helper()
	for a, at := range want {
		if got := a.began(); got != at {
			t.Errorf("%s of %d s began at %d, and not at %d", a.id, a.runs, got, at)
		}
	}
}

// TestBackfillAround: A holds all nodes but one, and B needs all. The test checks that C, which ends before B can
// start, is backfilled, and that D, which ends later, waits behind B.
func TestBackfillAround(t *testing.T) {
	for _, limited := range []bool{true, false} {
		s := newStage(t, simple(), 5, 1)
		a := s.enter(act{runs: 1000, limit: 1000, gang: wholes(4)})
		b := s.enter(act{at: 1, runs: 600, limit: 600, gang: wholes(5)})
		c := s.enter(act{at: 2, runs: 400, limit: 400, gang: wholes(1)})
		d := s.enter(act{at: 3, runs: 2000, limit: 2000, gang: wholes(1)})
		if !limited { // no job has a limit; earlier jobs of each size give the estimates
			a.limit, b.limit, c.limit, d.limit = 0, 0, 0, 0
			a.owner, b.owner, c.owner, d.owner = "a", "b", "c", "d"
			s.learn(nil)
			a.runs, c.runs = 990, 390
		}
		s.play(10_000)
		began(t, map[*actor]int64{a: 0, b: a.runs, c: 2, d: a.runs + 600})
	}
}

// learn adds two hundred ended jobs for each owner and size, with the given run time, or with that of the history if
// ran is nil.
func (s *stage) learn(ran func(*actor) int64) {
	for _, a := range s.cast {
		runs := a.runs
		if ran != nil {
			runs = ran(a)
		}
		pool := s.poolOf(a)
		for range 200 {
			s.runs.cells.Learn(estimate.Traits{Pool: pool.Name, Owner: a.owner, Size: pool.SizeOf(&a.gang)}, runs*second)
		}
	}
}

func (s *stage) poolOf(a *actor) *estimate.Pool {
	pool := estimate.PoolsOf(s.view).Of(&a.gang)
	return &pool
}

// TestEarlyEnd checks that an end before the limit moves a promise forward, and that its job starts at once.
func TestEarlyEnd(t *testing.T) {
	s := newStage(t, simple(), 5, 1)
	a := s.enter(act{runs: 300, limit: 1000, gang: wholes(3)}, act{runs: 450, limit: 500, gang: wholes(2)})
	b := s.enter(act{at: 1, runs: 600, limit: 600, gang: wholes(5)})
	for _, x := range []struct{ now, at int64 }{{1, 1000}, {300, 500}} { // then it waits only for the second job
		s.play(x.now)
		if p, ok := s.j.Promised(b.id); !ok || p.At != (x.at+1)*second {
			t.Fatalf("at %d: promised %v at %d, and not %d", x.now, ok, p.At/second-1, x.at)
		}
	}
	s.play(10_000)
	began(t, map[*actor]int64{a: 0, b: 450})
}

// TestFirm checks that the job which has waited longest gets a firm promise when there is credit. The bound must be the
// latest hard end on its nodes: limit, grace and the time to settle.
func TestFirm(t *testing.T) {
	s := newStage(t, simple(), 5, 1)
	s.enter(act{runs: 1000, limit: 1000, grace: 30, gang: wholes(4)})
	b := s.enter(act{at: 1, runs: 600, limit: 600, gang: wholes(5)})
	s.enter(act{at: 100, runs: 10, limit: 10, gang: wholes(1)}) // causes a pass
	s.play(100)
	if b.first == nil || b.first.Bound != (1001+30+20)*second {
		t.Fatalf("the firm promise is %+v", b.first)
	}
	s.play(10_000)
	began(t, map[*actor]int64{b: 1000})
}

// TestLentEarly checks that a job with a limit is backfilled if a part of its expected run time fits, although it is
// expected to end too late. A job without a limit is not.
func TestLentEarly(t *testing.T) {
	for _, firm := range []bool{true, false} {
		for _, limit := range []int64{6000, 0} {
			settings := simple()
			if !firm {
				settings.GuardPercent = 0
			}
			s := newStage(t, settings, 6, 1)
			s.enter(act{runs: 1000, limit: 20_000, gang: wholes(4), owner: "a"})
			b := s.enter(act{at: 1, runs: 100, limit: 100, gang: wholes(6), owner: "b"})
			c := s.enter(act{at: 20, runs: 900, limit: limit, gang: wholes(1), owner: "c"})
			d := s.enter(act{at: 21, runs: 700, limit: 15_000, gang: wholes(1), owner: "d"})
			expected := map[string]int64{"a": 1000, "b": 100, "c": 3000, "d": 14_000}
			s.learn(func(a *actor) int64 { return expected[a.owner] })
			s.play(10_000)
			want := map[*actor]int64{b: 1000, c: 20, d: 1100}
			if limit == 0 {
				want[c] = 1100
			}
			began(t, want)
		}
	}
}

// TestTwoSlips has jobs without limits, and short jobs that run longer than estimated. The test checks that the gang's
// nodes are lent to such jobs twice, then no more, and that the gang starts.
func TestTwoSlips(t *testing.T) {
	s := newStage(t, simple(), 2, 1)
	s.enter(act{runs: 1000, gang: wholes(1), owner: "a"})
	b := s.enter(act{at: 1, runs: 100, gang: wholes(2), owner: "b"})
	for i := range int64(20) {
		s.enter(act{at: 2 + i, runs: 3000, gang: wholes(1), owner: fmt.Sprint("c", i)})
	}
	s.learn(func(a *actor) int64 {
		if a.runs == 3000 {
			return 100
		}
		return a.runs
	})
	slips := 0
	s.looks = func() { slips = s.j.Slips() }
	s.play(100_000)
	lent := 0
	for _, x := range s.cast[2:] {
		if x.started < b.started {
			lent++
		}
	}
	if slips != maxSlips || b.began() != 4000 || lent != 2 {
		t.Errorf("%d slips, %d were started before the gang, which began at %d", slips, lent, b.began())
	}
}

// TestKeepMost has a gang that needs a node of a service which never ends. The test checks that its reservation ends
// after a while, and that the guard ignores it while the service runs.
func TestKeepMost(t *testing.T) {
	settings := simple()
	settings.KeepMost = 2 * time.Hour
	settings.PromisesGangs = 0
	s := newStage(t, settings, 2, 1)
	service := s.enter(act{runs: 1_000_000, gang: wholes(1), owner: "svc"})
	gang := s.enter(act{at: 1, runs: 100, limit: 100, gang: wholes(2)})
	for i := range int64(20) {
		s.enter(act{at: 100 + i*3600, runs: 3000, limit: 3000, gang: wholes(1)})
	}
	kept := map[int64]bool{}
	s.looks = func() { kept[s.now/second/3600] = len(s.view.Kept(topology.KeepID(gang.id))) > 0 }
	s.play(36_000)
	if gang.first == nil || gang.first.Bound != topology.Never || !kept[1] || kept[5] || kept[8] {
		t.Errorf("firm %+v; kept at each hour: %v", gang.first, kept)
	}
	if e := s.queue.jobs[gang.id]; e.given != service.id {
		t.Errorf("it waits because of %q", e.given)
	}
	service.runs = 36_100
	s.play(200_000)
	if gang.began() < 0 {
		t.Errorf("it never began")
	}
}

// TestLostMachine checks that a firm promise moves to other nodes when one of its nodes becomes unschedulable.
func TestLostMachine(t *testing.T) {
	s := newStage(t, simple(), 6, 1)
	s.enter(act{runs: 1000, limit: 1000, gang: wholes(5)})
	b := s.enter(act{at: 1, runs: 600, limit: 600, gang: wholes(5)})
	s.enter(act{at: 100, runs: 2000, limit: 2000, gang: wholes(1)})
	s.play(100)
	p, ok := s.j.Promised(b.id)
	if !ok || !p.Firm {
		t.Fatalf("promised %+v", p)
	}
	lost := p.Where.Slots[0].Node
	s.view.SetUsable(lost, "drained")
	s.enter(act{at: 200, runs: 1, limit: 1, gang: wholes(1)})
	s.play(200)
	p, ok = s.j.Promised(b.id)
	if !ok || slices.ContainsFunc(p.Where.Slots, func(x topology.Slot) bool { return x.Node == lost }) {
		t.Errorf("promised on %v although %s is closed", p.Where.Slots, lost)
	}
	s.play(10_000)
	if b.began() != 1000 && b.began() != 2100 {
		t.Errorf("it began at %d", b.began())
	}
}

// TestLocality checks that a gang which fits in one rack waits for one rack for a limited time.
func TestLocality(t *testing.T) {
	for _, frees := range []int64{40, 4000} {
		settings := simple()
		settings.Locality = time.Minute
		settings.GuardPercent = 0
		s := newStage(t, settings, 4, 2)            // two nodes in each rack
		for i, runs := range []int64{frees, 4000} { // one node of each rack is used
			one := wholes(1)
			one.Only = []topology.NodeID{machine(i, 2).ID}
			s.enter(act{runs: runs, limit: 5000, gang: one})
		}
		b := s.enter(act{at: 10, runs: 10, limit: 10, gang: wholes(2)})
		s.play(10_000)
		if want := min(frees, 70); b.began() != want {
			t.Errorf("it began at %d, and not at %d", b.began(), want)
		}
	}
}

// TestHeadroom checks that long jobs leave a part of the nodes to short jobs.
func TestHeadroom(t *testing.T) {
	settings := simple()
	settings.HeadroomPercent = 10
	s := newStage(t, settings, 10, 1)
	for range 12 {
		s.enter(act{runs: 200_000, gang: wholes(1), owner: "long"})
	}
	for range 200 {
		s.runs.cells.Learn(estimate.Traits{Pool: "h100", Owner: "long", Size: 8000}, 200_000*second)
	}
	short := s.enter(act{at: 50, runs: 60, limit: 60, gang: wholes(1)})
	s.play(1)
	long := 0
	for _, a := range s.cast {
		if a.started >= 0 {
			long++
		}
	}
	s.play(60)
	if long != 9 || short.began() != 50 {
		t.Errorf("%d of 10 machines are given to long work, and short work began at %d", long, short.began())
	}
	s.play(1_000_000)
	for _, a := range s.cast {
		if a.started < 0 {
			t.Errorf("%s never began", a.id)
		}
	}
}

// TestGuardCharged checks that the guard pays for jobs that it starts, that the charge is corrected after their end,
// and that other jobs are free.
func TestGuardCharged(t *testing.T) {
	s := newStage(t, simple(), 2, 1)
	s.enter(act{runs: 2000, limit: 2000, gang: wholes(2)})
	turn := s.enter(act{at: 1, runs: 50, limit: 90, gang: wholes(2)})
	s.enter(act{at: 3000, waited: 60, runs: 100, limit: 100, gang: wholes(1)})
	credit := func() int64 { return s.j.pools.all[0].credit }
	s.play(1999)
	s.pass()
	grown := credit()
	s.play(2001)
	if turn.began() != 2000 || grown <= 0 || credit() > grown-16_000*90+16_000 {
		t.Errorf("the guard had %d and has %d after the turn of a job that may run for 90 s", grown, credit())
	}
	s.play(2700)
	s.pass()
	if credit() < grown-16_000*50 || credit() > grown-16_000*50+16_000 {
		t.Errorf("the guard has %d after it ran for 50 s", credit())
	}
	was := credit()
	s.play(3001)
	if credit() < was {
		t.Errorf("the guard paid %d for what would start anyway", was-credit())
	}
}

// drawnHistory draws jobs that arrive faster than a small cluster can run them.
func drawnHistory(r *rand.Rand, jobs, machines int, limited bool) []act {
	var all []act
	at := int64(0)
	for i := range jobs {
		at += int64(r.Intn(300))
		runs := 1 + int64(r.Intn(2000))
		if r.Intn(10) == 0 {
			runs *= 20
		}
		a := act{at: at, runs: runs, gang: gang(1, 1+int64(r.Intn(8))), owner: fmt.Sprint("u", r.Intn(4))}
		if r.Intn(4) == 0 {
			a.gang = wholes(int32(2 + r.Intn(machines-1)))
		}
		if limited || i%2 == 0 {
			a.limit = runs + int64(r.Intn(2))*int64(r.Intn(3000))
		}
		all = append(all, a)
	}
	return all
}

// TestSameTwice checks that the decisions for a history do not depend on the order in which nodes joined and jobs were
// added.
func TestSameTwice(t *testing.T) {
	for seed := range int64(6) {
		var said [2]string
		for round := range said {
			s := newStage(t, DefaultSettings(), 6, 2)
			acts := drawnHistory(rand.New(rand.NewSource(seed)), 120, 6, seed%2 == 0)
			s.enter(acts...)
			if round == 1 {
				swap := func(i, k int) { s.cast[i], s.cast[k] = s.cast[k], s.cast[i] }
				rand.New(rand.NewSource(seed)).Shuffle(len(s.cast), swap)
			}
			s.play(10_000_000)
			for _, a := range s.cast {
				if a.over < 0 {
					t.Fatalf("seed %d: %s never ended", seed, a.id)
				}
			}
			said[round] = fmt.Sprint(s.said)
		}
		if said[0] != said[1] {
			t.Errorf("seed %d: another order, other decisions", seed)
		}
	}
}
