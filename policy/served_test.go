package policy

import (
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// This file tests firm promises whose attempts fail.

// served plays until a gang with a firm promise is started, takes that attempt back, and returns when the gang began in
// the end. Other jobs wait that would be first by their estimates, and run long.
func served(t *testing.T, back func(s *stage, b *actor)) (*stage, *actor) {
	s := newStage(t, simple(), 5, 1)
	s.enter(act{runs: 1000, limit: 1000, gang: wholes(4), owner: "a"})
	b := s.enter(act{at: 1, runs: 600, limit: 600, gang: wholes(5), owner: "b"})
	for range 6 {
		s.enter(act{at: 100, runs: 3000, limit: 5000, gang: wholes(1), owner: "quick"})
	}
	for range 200 {
		s.runs.cells.Learn(estimate.Traits{Pool: "h100", Owner: "quick", Size: 8000}, second)
	}
	done := false
	s.looks = func() {
		if b.started < 0 || done {
			return
		}
		done = true
		s.view.Give(b.place)
		s.runs.Ended(b.id, s.now, false)
		b.started = -1
		back(s, b)
	}
	s.play(20_000)
	if !done || b.first == nil {
		t.Fatal("the gang was never started by a firm promise")
	}
	return s, b
}

func (s *stage) again(a *actor) {
	s.queue.Add(Waiting{Job: a.id, Gang: a.gang, Arrived: a.at, Since: s.now, Limit: a.limit * second, Owner: a.owner})
	s.wake = s.now + second
}

// TestPromiseOutlivesAnAttempt checks that a gang has the first turn again on its promised place, after its attempt was
// given up before COMMIT.
func TestPromiseOutlivesAnAttempt(t *testing.T) {
	_, b := served(t, func(s *stage, b *actor) {
		s.j.Returned(b.id)
		s.again(b)
	})
	if b.began() != 1001 {
		t.Errorf("it began at %d", b.began())
	}
}

// TestPromiseEndsWithItsJob checks that a job which was held or cancelled has no promise when it returns, and neither
// has one whose attempt was committed.
func TestPromiseEndsWithItsJob(t *testing.T) {
	for name, end := range map[string]func(s *stage, b *actor){
		"withdrawn": func(s *stage, b *actor) { s.j.Returned(b.id); s.j.Forgotten(b.id); s.j.Written(b.id) },
		"committed": func(s *stage, b *actor) { s.j.Ended(b.id, 0) },
	} {
		_, b := served(t, func(s *stage, b *actor) {
			end(s, b)
			s.again(b)
		})
		if b.began() < 3000 {
			t.Errorf("%s: it began at %d, as if it had been promised", name, b.began())
		}
	}
}

// TestPromiseOutlivesAnotherWish checks that a job which leaves the queue and returns at once, as for a change of its
// limit or priority, keeps its firm promise.
func TestPromiseOutlivesAnotherWish(t *testing.T) {
	s := newStage(t, simple(), 5, 1)
	s.enter(act{runs: 1000, limit: 1000, gang: wholes(4)})
	b := s.enter(act{at: 1, runs: 600, limit: 600, gang: wholes(5)})
	s.enter(act{at: 100, runs: 10, limit: 10, gang: wholes(1)})
	s.play(200)
	before, ok := s.j.Promised(b.id)
	if !ok || !before.Firm {
		t.Fatalf("the promise is %+v", before)
	}
	w, _ := s.queue.Get(b.id)
	s.queue.Remove(b.id)
	s.queue.Add(w)
	s.pass()
	if after, ok := s.j.Promised(b.id); !ok || !after.Firm || after.Bound != before.Bound {
		t.Errorf("the promise was %+v, and is %+v", before, after)
	}
}

// TestResumed checks that jobs of an earlier leader count in the share for short jobs.
func TestResumed(t *testing.T) {
	s := newStage(t, DefaultSettings(), 10, 1)
	s.j.Resumed("old", estimate.Traits{Pool: "h100", Size: 72_000}, 2*longWork)
	long := s.enter(act{runs: 200_000, gang: wholes(1), owner: "long"})
	for range 200 {
		s.runs.cells.Learn(estimate.Traits{Pool: "h100", Owner: "long", Size: 8000}, 2*longWork)
	}
	s.play(10)
	if long.started >= 0 {
		t.Error("it was started though long work has nine tenths of the pool")
	}
	s.j.Ended("old", longWork)
	s.enter(act{at: 11, runs: 1, limit: 1, gang: wholes(1)})
	s.play(12)
	if long.started < 0 {
		t.Error("it was not started when the other had ended")
	}
}

// TestPromiseOnClosing checks that a firm promise is replaced if one of its nodes will drain too early for the gang.
func TestPromiseOnClosing(t *testing.T) {
	s := newStage(t, simple(), 6, 1)
	s.enter(act{runs: 1000, limit: 1000, gang: wholes(4)})
	s.enter(act{runs: 2000, limit: 2000, gang: wholes(2)})
	b := s.enter(act{at: 1, runs: 600, limit: 600, gang: wholes(4)})
	s.enter(act{at: 100, runs: 10, limit: 10, gang: wholes(1)})
	s.play(200)
	before, ok := s.j.Promised(b.id)
	if !ok || !before.Firm {
		t.Fatalf("the promise is %+v", before)
	}
	closes := before.Where.Slots[0].Node
	w, _ := s.queue.Get(b.id)
	s.queue.Remove(b.id)
	w.Gang.Closing = []topology.NodeID{closes}
	s.queue.Add(w)
	s.play(10_000)
	if b.began() != 2000 || slices.ContainsFunc(b.place.Slots, func(s topology.Slot) bool { return s.Node == closes }) {
		t.Errorf("it began at %d on %v, and %s closes", b.began(), b.place, closes)
	}
}

// TestCreditIsRecalled checks that the credit of the guard survives a change of the leader, and grows from there.
func TestCreditIsRecalled(t *testing.T) {
	s := newStage(t, simple(), 5, 1)
	s.j.Recall([]Credit{{"gone", 7}, {"h100", -500}})
	s.enter(act{runs: 1000, limit: 1000, gang: wholes(5)})
	s.enter(act{at: 1, runs: 10, limit: 10, gang: wholes(1)})
	s.play(1)
	if got, want := s.j.Credits(), []Credit{{"gone", 7}, {"h100", -500}}; !slices.Equal(got, want) {
		t.Errorf("at first it is %v, want %v", got, want)
	}
	s.enter(act{at: 2, runs: 10, limit: 10, gang: wholes(1)})
	s.play(2)
	if got := s.j.Credits(); len(got) == 0 || got[len(got)-1].Amount <= -500 {
		t.Errorf("it does not grow: %v", got)
	}
}
