package policy

// This file tests the published information about starts.

import (
	"testing"

	"github.com/yi-json/synapse/topology"
)

func (s *stage) promiseOf(a *actor) *Promise {
	for _, p := range s.j.Prospects().Promises {
		if p.Job == a.id {
			return &p
		}
	}
	return nil
}

func (s *stage) lineOf(a *actor) *InLine {
	e := s.queue.jobs[a.id]
	for _, l := range s.j.Prospects().Lines {
		if l.Burst == e.burstID() {
			return &l
		}
	}
	return nil
}

// TestProspects checks that a job with a promise gets a time and the end of its reservation, and a job without one the
// work ahead of it.
func TestProspects(t *testing.T) {
	settings := simple()
	settings.PromisesGangs, settings.PromisesOnes = 1, 0
	s := newStage(t, settings, 4, 1)
	svc := s.enter(act{runs: 100_000, gang: wholes(1), owner: "svc"}, act{runs: 2000, limit: 2000, gang: wholes(3)})
	first := s.enter(act{at: 1, runs: 100, limit: 100, gang: wholes(4)})
	next, third := s.enter(act{at: 2, runs: 200, limit: 200, gang: wholes(3), owner: "b"}),
		s.enter(act{at: 3, runs: 1000, limit: 1000, gang: wholes(3), owner: "c"})
	s.play(3)
	p := s.promiseOf(first)
	if p == nil || p.At == 0 || p.Bound != topology.Never || p.Endless != svc.id || len(p.Where.Slots) != 4 {
		t.Fatalf("the first is told %+v", p)
	}
	for i, x := range []*actor{next, third} {
		line := s.lineOf(x)
		if s.promiseOf(x) != nil || line == nil || line.Ahead != i+1 || line.Endless != svc.id {
			t.Fatalf("%s is told %+v of its place", x.id, line)
		}
	}
	a, b := s.lineOf(first), s.lineOf(third)
	each := s.queue.jobs[first.id].burst.estimate / second * 4 * 8000
	if b.Work != a.Each+s.lineOf(next).Each || a.Each != each || b.Pace != 0 {
		t.Errorf("ahead of the third is work of %d, the first's is %d", b.Work, a.Each)
	}
	s.enter(act{at: 1000, runs: 1, limit: 1, gang: wholes(1)}) // causes a pass when the oldest job has its turn
	s.play(1000)
	if p = s.promiseOf(first); p == nil || !p.Firm || p.Until >= topology.Never || p.Until < 1000*second {
		t.Errorf("what is kept for the oldest beside what never ends is %+v", p)
	}
	s.queue.Remove(first.id)
	if s.promiseOf(first) != nil {
		t.Error("who has left the queue is promised a time")
	}
}

// TestPace checks that the rate of a pool is the mean of the last day, as far as measured.
func TestPace(t *testing.T) {
	var p pace
	p.turn(100 * second)
	p.did(8000, 5000*second, 400*second) // 300 s of it were measured
	if got := p.now(400 * second); got != 0 {
		t.Errorf("after five minutes the pace is said to be %d", got)
	}
	if got := p.now(1300 * second); got != 8000*300/1200 {
		t.Errorf("after twenty minutes it is %d", got)
	}
	p.did(1000, 3600*second, 90_000*second) // a day later, the first hour has been removed
	p.turn(90_000 * second)
	if got, want := p.now(90_000*second), int64(1000*3600/(23*3600)); got != want {
		t.Errorf("after a day it is %d, and not %d", got, want)
	}
	p.turn(1_000_000 * second)
	if got := p.now(1_000_000 * second); got != 0 {
		t.Errorf("after days without work it is %d", got)
	}
}

// TestRaisedLimitIsTold has a job that a promise waits for, whose limit is raised and then removed. The test checks
// that the published latest start follows, and that a reservation without a bound lasts for KeepMost only.
func TestRaisedLimitIsTold(t *testing.T) {
	s := newStage(t, simple(), 4, 1)
	runs := s.enter(act{runs: 100_000, limit: 3600, gang: wholes(2)})
	waits := s.enter(act{at: 1, runs: 100, limit: 600, gang: wholes(4)})
	s.enter(act{at: 1000, runs: 1, limit: 1, gang: wholes(1)}) // causes a pass when the oldest job has its turn
	s.play(1000)
	p := s.promiseOf(waits)
	if p == nil || !p.Firm || p.Bound >= 3700*second || p.Latest != p.Bound {
		t.Fatalf("by a limit of an hour it is told %+v", p)
	}
	bound := p.Bound
	if p = s.limited(runs, 3*3600, waits); p == nil || p.Bound != bound || p.Latest <= 3*3600*second ||
		p.Until < topology.Never {
		t.Errorf("once the limit is three hours it is told %+v", p)
	}
	if p = s.limited(runs, 3600, waits); p == nil || p.Latest != bound {
		t.Errorf("once it is an hour again it is told %+v", p)
	}
	if p = s.limited(runs, 0, waits); p == nil || p.Latest != topology.Never || p.Until >= topology.Never ||
		p.Endless != runs.id {
		t.Errorf("once there is no limit it is told %+v", p)
	}
}

// limited changes the limit of a running job, and returns the promise of a waiting job after the next pass.
func (s *stage) limited(runs *actor, limit int64, waits *actor) *Promise {
	r := s.runs.jobs[runs.id]
	r.Traits.Limit, r.hard = limit*second, hardAfter(r.began, limit*second, r.Grace)
	s.runs.setAll(r)
	s.pass()
	return s.promiseOf(waits)
}
