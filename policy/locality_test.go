package policy

// This file tests how long a gang waits for a close place.

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/topology"
)

// halfTaken returns a stage with two racks of two nodes, where one node of each rack is used for some seconds.
func halfTaken(t *testing.T, locality time.Duration, runs int64) *stage {
	settings := simple()
	settings.Locality, settings.GuardPercent = locality, 0
	s := newStage(t, settings, 4, 2)
	for i := range 2 {
		one := wholes(1)
		one.Only = []topology.NodeID{machine(i, 2).ID}
		s.enter(act{runs: runs, limit: runs, gang: one})
	}
	return s
}

// TestLocalityOfLostMachines checks that a gang does not wait for a rack that is complete only with lost nodes. The
// nodes return at 100 s, and from then on a gang waits for one rack.
func TestLocalityOfLostMachines(t *testing.T) {
	settings := simple()
	settings.Locality, settings.GuardPercent = time.Hour, 0
	s := newStage(t, settings, 4, 2)
	close := func(why string) {
		for i := range 2 {
			s.view.SetUsable(machine(i, 2).ID, why)
		}
	}
	close("it does not answer")
	first := s.enter(act{runs: 50, limit: 50, gang: wholes(2)})
	s.play(99)
	close("")
	for i := range 2 {
		one := wholes(1)
		one.Only = []topology.NodeID{machine(i, 2).ID}
		s.enter(act{at: 100, runs: 400, limit: 400, gang: one})
	}
	second := s.enter(act{at: 101, runs: 50, limit: 50, gang: wholes(2)})
	s.play(1000)
	began(t, map[*actor]int64{first: 0, second: 500})
}

// TestLocalityBounded checks that a gang waits for half of its earlier wait, and at most for LocalityMost.
func TestLocalityBounded(t *testing.T) {
	for _, x := range []struct{ waited, begins int64 }{{0, 110}, {240, 170}, {1200, 650}, {100_000, 650}} {
		s := halfTaken(t, time.Minute, 100_000)
		gang := s.enter(act{at: 50, waited: x.waited, runs: 10, limit: 10, gang: wholes(2)})
		s.play(5000)
		if gang.began() != x.begins {
			t.Errorf("a gang that had waited for %d s began at %d, and not at %d", x.waited, gang.began(), x.begins)
		}
	}
}
