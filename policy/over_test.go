package policy

import (
	"testing"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// TestPromisedCounts checks that firm promises count in limits as if their jobs had started. Otherwise a job that uses
// none of the promised nodes takes the last of a limit, and nodes were reserved, or jobs stopped, in vain.
func TestPromisedCounts(t *testing.T) {
	s := obeying(t, DefaultSettings(), 4,
		share.QueueSpec{Name: "q", Owner: share.PerOwner{Running: num[int64](2)}}, share.QueueSpec{Name: "o"})
	core := topology.Gang{Replicas: 1, Each: topology.Resources{MilliCPU: 100}}
	s.enter(act{queue: "o", runs: 900, limit: 1000, gang: wholes(4)})
	small := s.enter(act{at: 1, queue: "q", owner: "ann", runs: 5000, limit: 5100, gang: core})
	large := s.enter(act{at: 10, queue: "q", owner: "ann", runs: 500, limit: 600, gang: wholes(2)})
	late := s.enter(act{at: 100, queue: "q", owner: "ann", runs: 4000, limit: 4100, gang: core})
	s.play(20_000)
	if large.first == nil {
		t.Error("it was promised nothing")
	}
	began(t, map[*actor]int64{small: 1, large: 900, late: 1400})
}

// TestStoppedForALimit checks that there is no latest start for a job that only a limit keeps waiting.
func TestStoppedForALimit(t *testing.T) {
	q := oneQueue()
	q.Queues[0].Limit = gpus(8)
	q.Queues = append(q.Queues, share.QueueSpec{Name: "o"})
	x := newTheatre(t, 2, q)
	x.enter(act{runs: 500, queue: "o", gang: wholes(1)}) // leaves one node free
	x.enter(act{at: 1, runs: 90_000, limit: 100_000, gang: wholes(1)})
	high := x.enter(act{at: 1000, runs: 50, limit: 100, gang: wholes(1), priority: 1})
	x.run(1010)
	if len(x.stops) != 1 || x.stops[0].Left != topology.Never || high.began() < 0 {
		t.Errorf("%v, and it began at %d", x.stops, high.began())
	}
}
