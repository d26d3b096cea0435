package policy

// This file owns the tests of a cluster that is new: nothing has ended yet, so nobody knows how long anything takes.

import "testing"

// TestColdStart: a gang waits for another one, and nothing has a limit. What comes meanwhile is lent the machines that
// are kept for it, though nothing is known of it; and where it stays for longer than what the gang waits for, that is
// a slip, and the gang starts in the end.
func TestColdStart(t *testing.T) {
	for _, stays := range []int64{30, 9000} {
		for _, firm := range []bool{true, false} {
			settings := simple()
			if !firm {
				settings.GuardPercent = 0
			}
			s := newStage(t, settings, 8, 1)
			runs := s.enter(act{runs: 4000, gang: wholes(4), owner: "a"})
			waits := s.enter(act{at: 1, runs: 100, gang: wholes(8), owner: "b"})
			for i := range int64(8) { // one after the other, so that each is lent at another moment
				s.enter(act{at: 100 + 10*i, runs: stays + i, gang: wholes(1), owner: "c"})
			}
			s.play(300)
			for i, a := range s.cast[2:] {
				if room := i < 4 || stays == 30; room && a.began() != a.at {
					t.Errorf("stays %d, firm %v: %s came at %d and began at %d", stays, firm, a.id, a.at, a.began())
				}
			}
			s.play(100_000)
			over := s.cast[2+3].over/second - 1
			if stays == 30 {
				over = runs.over/second - 1
			}
			if waits.began() != over || s.j.Slips() > maxSlips {
				t.Errorf("stays %d, firm %v: the gang began at %d, and all that it waited for was over at %d; %d slips",
					stays, firm, waits.began(), over, s.j.Slips())
			}
		}
	}
}

// TestColdLeavesBounds: what a gang waits for has a limit, so that its machines surely come free. Nothing of which
// nobody knows an end is lent them, though nothing is known of how long it takes.
func TestColdLeavesBounds(t *testing.T) {
	for _, firm := range []bool{true, false} {
		settings := simple()
		if !firm {
			settings.GuardPercent = 0
		}
		s := newStage(t, settings, 5, 1)
		s.enter(act{runs: 1000, limit: 1000, gang: wholes(4), owner: "a"})
		waits := s.enter(act{at: 1, runs: 100, limit: 100, gang: wholes(5), owner: "b"})
		endless := s.enter(act{at: 20, runs: 50_000, gang: wholes(1), owner: "c"})
		s.play(10_000)
		if waits.began() != 1000 || endless.began() < 1000 {
			t.Errorf("firm %v: the gang began at %d, and what has no limit at %d", firm, waits.began(), endless.began())
		}
	}
}
