package policy

// This file tests the estimated starts of jobs with a topology wait.

import (
	"math/rand"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// patientStage returns a cluster with two racks of two nodes, and a gang of two nodes that prefers one rack. One node
// of each rack is used for half an hour.
func patientStage(t *testing.T, settings Settings, patience int64) (*stage, *actor) {
	s := newStage(t, settings, 4, 2)
	for i := range 2 {
		one := wholes(1)
		one.Only = []topology.NodeID{machine(i, 2).ID}
		s.enter(act{runs: 1800, limit: 1800, gang: one})
	}
	two := wholes(2)
	two.Preferred = "rack"
	return s, s.enter(act{at: 1, runs: 100, limit: 100, gang: two, patience: patience})
}

// TestPatienceIsTold checks the estimate of a job that waits for a rack, for moving and firm promises. If its topology
// wait ends first, the estimate is that end, and the job does not start earlier. Otherwise the estimate is the time
// when a rack is free.
func TestPatienceIsTold(t *testing.T) {
	moving := simple()
	moving.GuardPercent = 0
	firm := simple()
	firm.PromisesGangs = 0
	for _, settings := range []Settings{moving, firm} {
		for _, x := range []struct{ patience, at int64 }{{120, 121}, {3600, 1800}} {
			s, gang := patientStage(t, settings, x.patience)
			// Causes a pass when the oldest job has its turn.
			s.enter(act{at: 20, runs: 1, limit: 1, gang: wholes(1)})
			s.play(20)
			p := s.promiseOf(gang)
			if p == nil || p.Firm != (settings.GuardPercent > 0) || p.At/second-1 < x.at || p.At/second-1 > x.at+50 {
				t.Errorf("with a patience of %d s it is told %+v", x.patience, p)
			}
			s.play(4000)
			if gang.began() != x.at {
				t.Errorf("with a patience of %d s it began at %d, and not at %d", x.patience, gang.began(), x.at)
			}
			if first := gang.first; first != nil && gang.started > first.Bound {
				t.Errorf("with a patience of %d s it was told no later than %d", x.patience, first.Bound/second-1)
			}
		}
	}
}

// TestPatienceOfTheNextLeader checks that a new leader counts the topology wait from its own begin, but that a
// published latest start on the promised place remains valid.
func TestPatienceOfTheNextLeader(t *testing.T) {
	s, gang := patientStage(t, simple(), 600)
	s.enter(act{at: 20, runs: 1, limit: 1, gang: wholes(1)})
	s.play(20)
	p := s.promiseOf(gang)
	if p == nil || !p.Firm || p.Bound != 602*second+settling {
		t.Fatalf("it is told %+v", p)
	}
	said := s.firm[len(s.firm)-1]
	s.play(300)
	waits, _ := s.queue.Get(gang.id)
	s.queue.Remove(gang.id)
	waits.Since = s.now
	s.j = NewJudgement(simple(), s.runs.cells, s.runs)
	s.queue = NewQueue()
	said.Left = p.Bound - s.now
	s.j.Inherit(&said, s.now)
	s.queue.Add(waits)
	s.pass()
	s.play(4000)
	if began := gang.began(); began != 601 {
		t.Errorf("it began at %d", began)
	}
}

// TestPatientBoundsHold checks that each job starts by the first latest start that it was guaranteed, if all jobs have
// limits and gangs have a topology wait. No job starts on a wider place before its wait ends.
func TestPatientBoundsHold(t *testing.T) {
	firm, wide := 0, 0
	for seed := range int64(60) {
		r := rand.New(rand.NewSource(seed))
		settings := DefaultSettings()
		settings.GuardPercent = 5 + int64(r.Intn(40))
		machines := 4 + r.Intn(6)
		s := newStage(t, settings, machines, 2+r.Intn(2))
		acts := drawnHistory(r, 60, machines, true)
		for i := range acts {
			acts[i].gang.Preferred, acts[i].patience = "rack", int64(r.Intn(3000))
		}
		s.enter(acts...)
		s.play(100_000_000)
		for _, a := range s.cast {
			if a.started < 0 || a.first != nil && a.started > a.first.Bound {
				t.Errorf("seed %d: %s began at %d, and was told %+v", seed, a.id, a.began(), a.first)
			}
			if a.first != nil {
				firm++
			}
			if s.view.IsWithin(a.place, "rack") {
				continue
			}
			if wide++; a.began() < a.at+a.patience {
				t.Errorf("seed %d: %s began at %d in two racks, and was patient", seed, a.id, a.began())
			}
		}
	}
	if firm < 200 || wide < 200 {
		t.Errorf("%d firm promises and %d starts in two racks show nothing", firm, wide)
	}
}
