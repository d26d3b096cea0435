package policy

// This file owns the tests that small jobs do not pay for room that is kept for a time yet to come.

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// crowd is a stage of four machines, on each of which half of the memory is a running gang's, and the other half a
// gang's that is promised all devices of all of them. Nothing has a limit, but for the running gang where one is given.
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

// cores is a job without devices.
func cores(n, memory int64) topology.Gang {
	return topology.Gang{Replicas: 1, Each: topology.Resources{MilliCPU: n * 1000, MemoryBytes: memory * gib}}
}

// TestSmallJobsDoNotPayForKeptRoom: it is known how long everybody's jobs run. Beside a running and a promised gang on
// all machines a job of one core starts at once, however long it may stay, for the running gang takes its memory with
// it. It delays nobody: the promised gang begins as the running one ends. What has no place beside the promised gang
// then does not start before it.
func TestSmallJobsDoNotPayForKeptRoom(t *testing.T) {
	for _, limit := range []int64{0, 8000} {
		s, runs, waits := crowd(t, limit)
		var small []*actor
		for i := range 40 { // more than four machines have cores for
			small = append(small, s.enter(act{at: 20 + int64(i), runs: 100_000, gang: cores(4, 16), owner: fmt.Sprint("u", i)}))
		}
		large := s.enter(act{at: 15, runs: 100_000, gang: cores(25, 1)}) // 44 of 64 are free, and 40 are promised
		s.learn(nil)
		s.play(5000)
		at, began := int64(0), 0
		for i, a := range small {
			if a.began() >= 0 {
				began++
				at = max(at, a.began()-20-int64(i))
			}
		}
		if began != 24 || at != 0 { // six on each machine
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

// TestLoansShareMoments: a gang waits for one that runs for far longer than was expected, so that the moment at which
// its machines are expected to be free moves on and on, and two that were lent some of them stay for as long. What is
// short is lent the rest all the same: all that is late together makes the gang slip once.
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
	for _, at := range []int64{900, 1400} { // each before the gang is expected to start, by what is known then
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
