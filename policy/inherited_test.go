package policy

import (
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// This file tests firm promises across changes of the leader, and between two attempts.

// oldest plays until a gang of five nodes has a firm promise, whose nodes are free when a gang of four ends at 1000.
// Another job waits too. It would be first by its estimate, and runs long.
func oldest(t *testing.T) (s *stage, b *actor, said *Firm) {
	s = newStage(t, simple(), 5, 1)
	s.enter(act{runs: 1000, limit: 1000, gang: wholes(4)})
	b = s.enter(act{at: 1, runs: 600, limit: 600, gang: wholes(5)})
	s.enter(act{at: 100, runs: 3000, limit: 5000, gang: wholes(1), owner: "quick"})
	for range 200 {
		s.runs.cells.Learn(estimate.Traits{Pool: "h100", Owner: "quick", Size: 8000}, second)
	}
	s.play(200)
	if len(s.firm) != 1 || s.firm[0].Job != b.id || len(s.firm[0].Where.Slots) != 5 {
		t.Fatalf("said is %+v", s.firm)
	}
	return s, b, &s.firm[0]
}

// takeover returns the planner of a new leader, which does not know the waiting jobs yet.
func (s *stage) takeover() *Judgement {
	for _, a := range s.cast {
		if s.queue.Remove(a.id) {
			s.view.Unkeep(topology.KeepID(a.id))
			a.at = 1 << 30
		}
	}
	s.queue = NewQueue()
	s.j = NewJudgement(s.j.settings, s.runs.cells, s.runs)
	return s.j
}

// comes makes a job known to the new leader after some seconds.
func (s *stage) comes(a *actor, after int64) { a.at = s.now/second - 1 + after }

// TestPromiseIsInherited checks that a new leader reserves the same nodes from its first pass on, before it knows the
// job. The bound must not become later.
func TestPromiseIsInherited(t *testing.T) {
	s, b, said := oldest(t)
	before, _ := s.j.Promised(b.id)
	s.now += 50 * second
	if !s.takeover().Inherit(said, s.now) {
		t.Fatal("it is not taken over")
	}
	quick := s.cast[2]
	s.comes(quick, 1)
	s.play(300)
	if quick.started >= 0 {
		t.Fatal("another one was started on it before the job was heard")
	}
	s.comes(b, 1)
	s.play(310)
	after, ok := s.j.Promised(b.id)
	if !ok || !after.Firm || after.Bound > before.Bound || len(after.Where.Slots) != 5 {
		t.Errorf("the promise was %+v, and is %+v", before, after)
	}
	if len(s.firm) != 1 {
		t.Errorf("it was said again: %+v", s.firm[1:])
	}
	s.play(5000)
	if b.began() != 1000 {
		t.Errorf("it began at %d", b.began())
	}
	other := Firm{Job: "other", Where: said.Where, Left: topology.Never}
	if !s.j.Inherit(&other, s.now) || s.j.Inherit(&Firm{Job: "none"}, s.now) {
		t.Error("what is inherited is not told")
	}
	s.j.Forgotten("other")
	if s.j.Inherit(&Firm{Job: "other"}, s.now) {
		t.Error("it is kept for a job that is forgotten")
	}
}

// TestBlindLendsNothing checks that an inherited promise lends nothing until all attempts on its nodes have reported
// their run times. Until then, its bound may be later than the published one.
func TestBlindLendsNothing(t *testing.T) {
	s, b, said := oldest(t)
	ends := &unheard{known: s.runs, yet: true}
	s.now += 50 * second
	s.takeover()
	s.j.ends = ends
	s.j.Inherit(said, s.now)
	s.comes(b, 1)
	brief := s.enter(act{at: 300, runs: 50, limit: 50, gang: wholes(1)})
	s.play(310)
	if brief.started >= 0 {
		t.Error("it was lent what nobody knows to be free by then")
	}
	ends.yet = false
	s.wake = s.now
	s.play(320)
	if brief.started < 0 {
		t.Error("it is not lent what is known to be free")
	}
	s.play(5000)
	if b.began() != 1000 {
		t.Errorf("it began at %d", b.began())
	}
}

// known has all other methods of Runs.
type known = Ends

type unheard struct {
	known
	yet bool
}

func (u *unheard) Unheard(topology.Placement) bool { return u.yet }

// TestKeptBetweenAttempts has an attempt that is given up, and its job waits again a while later. The test checks that
// no other job starts on the promised nodes in between.
func TestKeptBetweenAttempts(t *testing.T) {
	s, b := served(t, func(s *stage, b *actor) {
		s.j.Returned(b.id)
		s.comes(b, 30)
		s.wake = s.now + 1
	})
	if b.began() != 1030 {
		t.Errorf("it began at %d, and waited again at 1030", b.began())
	}
	for _, a := range s.cast {
		if a.owner == "quick" && a.began() > 1000 && a.began() < 1030 {
			t.Errorf("%s was started at %d on what was promised", a.id, a.began())
		}
	}
}

// TestSaidOnce checks that an unchanged promise is recorded once, and that its end is recorded once.
func TestSaidOnce(t *testing.T) {
	s, b, said := oldest(t)
	first := said.FirstEstimate
	if said.Left != 920*second || said.Slips != 0 || first.Made != 2*second || first.At <= first.Made {
		t.Errorf("said is %+v", said)
	}
	for range 5 {
		s.pass()
	}
	if len(s.firm) != 1 {
		t.Errorf("it was said again: %+v", s.firm[1:])
	}
	s.view.Remove(said.Where.Slots[0].Node)
	s.pass()
	if last := s.firm[len(s.firm)-1]; len(s.firm) != 2 || last.Job != b.id || len(last.Where.Slots) != 0 {
		t.Errorf("it lost a machine, and no other place holds it: said is %+v", s.firm[1:])
	}
}

// TestSlipIsSaidBefore checks that capacity lent on an estimate counts as an overrun in the record at once. A new
// leader does not know whether it was returned in time.
func TestSlipIsSaidBefore(t *testing.T) {
	s := newStage(t, simple(), 5, 1)
	s.enter(act{runs: 1000, gang: wholes(4), owner: "slow"})
	b := s.enter(act{at: 1, runs: 600, limit: 600, gang: wholes(5)})
	s.enter(act{at: 100, runs: 10, gang: wholes(1), owner: "quick"})
	for range 200 {
		s.runs.cells.Learn(estimate.Traits{Pool: "h100", Owner: "quick", Size: 8000}, second)
		s.runs.cells.Learn(estimate.Traits{Pool: "h100", Owner: "slow", Size: 32000}, 900*second)
	}
	s.play(105)
	if len(s.firm) != 1 || s.firm[0].Slips != 1 || s.firm[0].Left != topology.Never {
		t.Fatalf("said is %+v", s.firm)
	}
	s.play(500)
	if p, ok := s.j.Promised(b.id); !ok || p.Slips != 0 || len(s.firm) != 1 {
		t.Errorf("it was back in time: the promise is %+v, and said is %+v", p, s.firm)
	}
}

// TestStrangerOnAMachine has an unknown attempt of an earlier leader, without a known end, on a node of a firm promise.
// The test checks that the promise remains, because the node is present.
func TestStrangerOnAMachine(t *testing.T) {
	s, b, said := oldest(t)
	stranger := topology.Placement{Slots: said.Where.Slots[4:]}
	s.view.Take(stranger)
	s.pass()
	if p, ok := s.j.Promised(b.id); !ok || !p.Firm || len(s.firm) != 1 {
		t.Errorf("the promise is %+v, and said is %+v", p, s.firm)
	}
	s.view.Give(stranger)
	s.play(5000)
	if b.began() != 1000 {
		t.Errorf("it began at %d", b.began())
	}
}
