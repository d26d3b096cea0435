package policy

// This file tests a new cluster, in which no job has ended yet and no run time is known.

import "testing"

// TestColdStart has a gang that waits for another one, and no job has a limit. The test checks that new jobs are
// backfilled on the reserved nodes although their run time is unknown. If they stay longer than the gang needs to wait,
// that counts as an overrun, and the gang starts in the end.
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
			for i := range int64(8) { // one after the other, so that each is lent at a different time
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

// TestColdLeavesBounds has a gang that waits for a job with a limit, so that its nodes certainly become free. The test
// checks that no job without a known end is backfilled on these nodes.
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
