package policy

// This file tests the suggestion of a time limit.

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
)

// TestWayOutStarts asks for suggestions for each waiting job in random states, and applies them. The next pass must
// start the job.
func TestWayOutStarts(t *testing.T) {
	applied, held, states := 0, 0, 200
	switch {
	case *seeds > 0:
		states = *seeds
	case testing.Short():
		states = 40
	}
	for seed := range states {
		r := rand.New(rand.NewSource(int64(seed)))
		settings := DefaultSettings()
		settings.PromisesGangs, settings.PromisesOnes = 1+r.Intn(3), r.Intn(3)
		s := newStage(t, settings, 12, 3)
		for i := range 60 {
			a := act{at: int64(r.Intn(20_000)), runs: 60 + int64(r.Intn(9000)), owner: fmt.Sprint(r.Intn(4))}
			a.gang = wholes(1 + r.Int31n(12))
			switch {
			case r.Intn(10) == 0:
				a.runs *= 50
			case i%3 > 0:
				a.limit, a.grace = a.runs+int64(r.Intn(5000)), int64(r.Intn(60))
			}
			if r.Intn(3) > 0 {
				a.gang = wholes(1 + r.Int31n(2))
			}
			s.enter(a)
		}
		for i := range int64(12) { // of a kind that is known to run for days
			if seed%2 > 0 {
				break
			}
			x := s.enter(act{at: 600 * i, runs: 200_000, gang: wholes(2 + r.Int31n(3)), owner: "long"})
			pool := s.poolOf(x)
			for range 50 {
				s.runs.cells.Learn(estimate.Traits{Pool: pool.Name, Owner: "long", Size: pool.SizeOf(&x.gang)}, x.runs*second)
			}
		}
		for at := int64(500); at < 40_000; at += 700 + int64(r.Intn(900)) {
			s.play(at)
			s.pass() // makes the suggestion current
			s.pass() // includes jobs that were submitted just now
			for _, a := range s.cast {
				if way, ok := s.wayOut(a); ok {
					applied++
					if len(way.Of) == 0 {
						held++
					}
					s.limit(a, int64(way.Limit))
					break
				}
			}
		}
	}
	if applied < states || held == 0 && !testing.Short() {
		t.Errorf("%d were applied, %d of them to jobs that were held back for their length", applied, held)
	}
	t.Logf("%d were applied, %d of them to jobs that were held back for their length", applied, held)
}

func (s *stage) wayOut(a *actor) (WayOut, bool) {
	e := s.queue.jobs[a.id]
	if e == nil {
		return WayOut{}, false
	}
	all := s.j.Prospects()
	line := s.lineOf(a)
	asked := Question{Gang: e.group.wanted(s.view), Patient: e.group.key.patient}
	who := Borrower{Job: a.id, Limit: e.Limit, Grace: e.Grace, Lent: e.Lent}
	return asked.WayOut(s.view, who, all.Promises, line != nil && line.Why == Headroom, s.now)
}

// limit gives a waiting job a time limit, and requests a pass.
func (s *stage) limit(a *actor, limit int64) {
	before, _ := s.queue.Get(a.id)
	s.queue.Remove(a.id)
	given := before
	given.Limit = limit
	s.queue.Add(given)
	a.limit, a.runs = limit/second, min(a.runs, limit/second)
	promises := s.j.Prospects().Promises
	s.pass()
	if a.started != s.now {
		s.t.Fatalf("at %d %s of %d was told that it starts with a limit of %d s (before: %d), and does not; promised "+
			"was %+v, is %+v", s.now/second, a.id, a.gang.Replicas, limit/second, before.Limit/second, promises,
			s.j.Prospects().Promises)
	}
}
