package leader

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// A member's end that was on disk at a takeover is told again by its machine. It does not stand for another member of
// the gang that the machine has not started yet.
func TestEndsBeforeTheTakeover(t *testing.T) {
	plan := attemptPlan{
		Job: "j1", Token: topology.Token{Epoch: 1, Counter: 7}, Spec: oneGPU(), Resumed: &messages.AttemptRecord{Job: "j1"},
		Targets: []Target{{Node: "n1", MachineID: "m1", Members: []*messages.Member{{Rank: 1}}}}, // rank 0 has ended before
	}
	p := leaderPorts()
	p.Peers = here{}
	c := newCoordinator(p, actor.NewPID("here", "job"), somePeers.scheduler, plan).(*Coordinator)
	c.states.Become("resume", coordinatorCommitting)
	passed := func(rank int32) bool {
		var said []letter
		c.onRanksGone(&overheard{said: &said}, ranksGone{Node: "n1", Ranks: []int32{rank}})
		for _, l := range said {
			if _, is := l.message.(barrierPassed); is && l.to == "job" {
				return true
			}
		}
		return false
	}
	if passed(0) {
		t.Error("the gang is said to have started, and rank 1 was not")
	}
	if !passed(1) {
		t.Error("all members have ended, and the gang is not said to have started")
	}
}
