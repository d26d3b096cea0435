package coordinator

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestEndsBeforeTheTakeover checks exits that were on disk at a takeover and that the node repeats. They do not count
// for another member of the gang that the node has not started yet.
func TestEndsBeforeTheTakeover(t *testing.T) {
	plan := protocol.AttemptPlan{
		Job: "j1", Token: topology.Token{Epoch: 1, Counter: 7}, Spec: leadertest.OneGPU(),
		Resumed: &messages.AttemptRecord{Job: "j1"},
		Targets: []protocol.Target{{Node: "n1", MachineID: "m1", Members: []*messages.Member{{Rank: 1}}}},
		// rank 0 had ended before the takeover
	}
	p := leadertest.Ports()
	p.Peers = leadertest.Nodes{}
	c := New(p, actor.NewPID("here", "job"), leadertest.Peers.Scheduler, plan).(*Coordinator)
	c.states.Become("resume", coordinatorCommitting)
	passed := func(rank int32) bool {
		var said []leadertest.Letter
		c.onRanksGone(&leadertest.Context{Said: &said}, protocol.RanksGone{Node: "n1", Ranks: []int32{rank}})
		for _, l := range said {
			if _, is := l.Message.(protocol.BarrierPassed); is && l.To == "job" {
				return true
			}
		}
		return false
	}
	if passed(0) {
		t.Error("the barrier was passed before rank 1 started")
	}
	if !passed(1) {
		t.Error("all members have ended, but the barrier was not passed")
	}
}

// TestReservedAfterTheTakeover checks that a Reserved after the takeover, however late or wrong, neither advances nor
// ends a committed attempt.
func TestReservedAfterTheTakeover(t *testing.T) {
	incarnation := &messages.Incarnation{BootId: "b1", StartedNs: 1}
	plan := protocol.AttemptPlan{
		Job: "j1", Token: topology.Token{Epoch: 1, Counter: 7}, Spec: leadertest.OneGPU(),
		Resumed: &messages.AttemptRecord{Job: "j1"},
		Targets: []protocol.Target{{Node: "n1", MachineID: "m1", Incarnation: incarnation,
			Members: []*messages.Member{{Rank: 1}}}},
	}
	p := leadertest.Ports()
	p.Peers = leadertest.Nodes{}
	c := New(p, actor.NewPID("here", "job"), leadertest.Peers.Scheduler, plan).(*Coordinator)
	c.states.Become("resume", coordinatorCommitting)
	w := c.at["n1"]
	w.known, w.Incarnation = true, incarnation
	var said []leadertest.Letter
	c.onReserved(&leadertest.Context{Said: &said}, &messages.Reserved{
		Origin: &messages.Origin{Token: messages.ToToken(plan.Token), Node: "n1", MachineId: "m1", Incarnation: incarnation},
		Grants: []*messages.Grant{{Rank: 0}, {Rank: 1}},
	})
	if len(said) > 0 || w.stage != stageAsked || !c.states.In(coordinatorCommitting) {
		t.Errorf("state %s, node at stage %d, %d messages sent", c.states.At(), w.stage, len(said))
	}
}
