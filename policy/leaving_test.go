package policy

// This file tests that reservations for a later time do not delay small jobs.

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// crowd returns a stage with four nodes. On each node, a running gang has half of the memory. The other half, with all
// devices, is promised to a waiting gang. Only the running gang may have a limit.
func crowd(t *testing.T, limit int64) (s *stage, runs, waits *actor) {
	s = newStage(t, simple(), 4, 2)
	half := func(cores int64) topology.Gang {
		return topology.Gang{
			Replicas: 4, Each: topology.Resources{MilliCPU: cores * 1000, MemoryBytes: 256 * gib, MilliGPU: 8000},
		}
	}
	runs = s.enter(act{runs: 7200, limit: limit, gang: half(20)})
	waits = s.enter(act{at: 10, runs: 600, limit: limit, gang: half(40)})
	return s, runs, waits
}

// cores returns a job without devices.
func cores(n, memory int64) topology.Gang {
	return topology.Gang{Replicas: 1, Each: topology.Resources{MilliCPU: n * 1000, MemoryBytes: memory * gib}}
}

// TestSmallJobsDoNotPayForKeptRoom has known run times for all jobs. A running and a promised gang use all nodes. The
// test checks that a small job without devices starts at once, whatever its length, because the running gang frees its
// memory. It delays no job: the promised gang begins when the running one ends. A job that does not fit next to the
// promised gang does not start before it.
func TestSmallJobsDoNotPayForKeptRoom(t *testing.T) {
	for _, limit := range []int64{0, 8000} {
		s, runs, waits := crowd(t, limit)
		var small []*actor
		for i := range 40 { // more than the cores of four nodes allow
			small = append(small, s.enter(act{at: 20 + int64(i), runs: 100_000, gang: cores(4, 16), owner: fmt.Sprint("u", i)}))
		}
		// 44 of 64 are free, and 40 are promised.
		large := s.enter(act{at: 15, runs: 100_000, gang: cores(25, 1)})
		s.learn(nil)
		s.play(5000)
		at, began := int64(0), 0
		for i, a := range small {
			if a.began() >= 0 {
				began++
				at = max(at, a.began()-20-int64(i))
			}
		}
		if began != 24 || at != 0 { // six on each node
			t.Errorf("limit %d: %d of 40 small jobs began, the last %d s after it came", limit, began, at)
		}
		if large.began() >= 0 {
			t.Errorf("limit %d: a job began at %d that the promised gang has no room beside", limit, large.began())
		}
		s.play(10_000)
		if waits.began() != runs.over/second-1 {
			t.Errorf("limit %d: the gang was promised its turn at %d, and began at %d", limit, runs.over/second-1, waits.began())
		}
	}
}

// TestLoansShareMoments has a gang that waits for a job which runs much longer than estimated. The expected time of its
// nodes moves repeatedly, and two backfilled jobs stay as long. The test checks that the other nodes are still lent to
// short jobs, because everything that is late together counts as one overrun.
func TestLoansShareMoments(t *testing.T) {
	s := newStage(t, simple(), 3, 1)
	for _, owner := range []string{"long", "liar900", "liar1400", "short"} {
		for range 200 {
			runs := int64(60)
			if owner == "long" {
				runs = 1000
			}
			s.runs.cells.Learn(estimate.Traits{Pool: "h100", Owner: owner, Size: 8000}, runs*second)
			s.runs.cells.Learn(estimate.Traits{Pool: "h100", Owner: owner, Size: 1000}, runs*second)
		}
	}
	long := s.enter(act{runs: 20_000, gang: wholes(1), owner: "long"})
	waits := s.enter(act{at: 1, runs: 100, gang: wholes(3), owner: "waits"})
	for _, at := range []int64{900, 1400} { // each before the expected start of the gang at that time
		s.enter(act{at: at, runs: 18_000, gang: gang(1, 1), owner: fmt.Sprint("liar", at)})
	}
	for at := int64(1600); at < 18_000; at += 200 {
		s.enter(act{at: at, runs: 60, gang: gang(1, 1), owner: "short"})
	}
	s.play(30_000)
	for _, a := range s.cast {
		if a != long && a != waits && (a.began() < 0 || a.began() > a.at+200) {
			t.Errorf("%s of %s came at %d and began at %d", a.id, a.owner, a.at, a.began())
		}
	}
	if over := long.over/second - 1; waits.began() < 0 || waits.began() > over {
		t.Errorf("the gang began at %d, and what it waited for was over at %d", waits.began(), over)
	}
	if s.j.Slips() > maxSlips {
		t.Errorf("%d slips", s.j.Slips())
	}
}
