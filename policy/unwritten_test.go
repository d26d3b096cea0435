package policy

import (
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
)

// This file tests firm promises whose records on disk are outdated.

// long adds jobs of one node that would be first by their estimates, and run long.
func (s *stage) long(n int, at int64) (first *actor) {
	for i := range n {
		if a := s.enter(act{at: at, runs: 3000, limit: 5000, gang: wholes(1), owner: "quick"}); i == 0 {
			first = a
		}
	}
	for range 200 {
		s.runs.cells.Learn(estimate.Traits{Pool: "h100", Owner: "quick", Size: 8000}, second)
	}
	return first
}

// TestFormerPlaceIsKept has a firm promise that moves to an earlier place while the disk is slow. The test checks that
// the former place stays reserved until the change is on disk, because the next leader would use it.
func TestFormerPlaceIsKept(t *testing.T) {
	s := newStage(t, simple(), 4, 1)
	s.slowDisk = true
	for i, runs := range []int64{1000, 1100, 3000, 500} {
		owner := string(rune('a' + i))
		for range 200 {
			s.runs.cells.Learn(estimate.Traits{Pool: "h100", Owner: owner, Size: 8000}, runs*second)
		}
		a := s.enter(act{runs: runs, limit: runs, gang: wholes(1), owner: owner})
		if runs == 3000 {
			a.runs = 300
		}
	}
	b := s.enter(act{at: 1, runs: 600, limit: 600, gang: wholes(2)})
	s.long(1, 100)
	s.play(400)
	if len(s.firm) != 2 || len(besides(s.firm[0].Where.Slots, s.firm[1].Where.Slots)) != 1 {
		t.Fatalf("the promise was to move once: said is %+v", s.firm)
	}
	s.play(1050)
	if x := s.cast[5]; b.began() != 500 || x.started >= 0 {
		t.Errorf("the gang began at %d, and another one, on what the disk has as promised, at %d", b.began(), x.began())
	}
	s.slowDisk, s.wake = false, s.now+1
	s.play(1060)
	if x := s.cast[5]; x.started < 0 {
		t.Error("what was promised before is kept though nobody has it on disk any more")
	}
}

// TestGivenUpIsKept checks that the nodes of a firm promise stay reserved after its end or a cancel of its job, until
// the job's record has no promise.
func TestGivenUpIsKept(t *testing.T) {
	for name, end := range map[string]func(s *stage, b *actor, said *Firm){
		"given up": func(s *stage, _ *actor, said *Firm) { s.view.Remove(said.Where.Slots[0].Node) },
		"withdrawn": func(s *stage, b *actor, _ *Firm) {
			s.queue.Remove(b.id)
			b.at = 1 << 30
			if !s.j.Forgotten(b.id) {
				t.Error("withdrawn: nobody has to say when its record is written")
			}
		},
	} {
		s, b, said := oldest(t)
		s.slowDisk = true
		end(s, b, said)
		s.wake = s.now
		s.play(300)
		if quick := s.cast[2]; quick.started >= 0 {
			t.Errorf("%s: another one began at %d on what the disk has as promised", name, quick.began())
		}
		if !s.j.Written(b.id) || s.j.Written(b.id) {
			t.Errorf("%s: what is on disk frees room once, or never", name)
		}
		s.wake = s.now
		s.play(310)
		if quick := s.cast[2]; quick.started < 0 {
			t.Errorf("%s: it is kept though the disk knows that it is promised to nobody", name)
		}
	}
}

// TestActorIsRemade checks a job's actor that is recreated from a record with an earlier place than the planner knows.
func TestActorIsRemade(t *testing.T) {
	s, b, said := oldest(t)
	other := *said
	other.Where.Slots = slices.Clone(said.Where.Slots[:1])
	other.Where.Slots[0].Node = "elsewhere"
	if !s.j.Inherit(&other, s.now) || !s.j.Written(b.id) {
		t.Error("what its record has is not kept")
	}
	if !s.j.Inherit(said, s.now) || s.j.Written(b.id) {
		t.Error("its record is as it was said, and more is kept")
	}
}
