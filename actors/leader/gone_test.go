package leader

import (
	"github.com/yi-json/synapse/actors/leader/leadertest"

	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestEndsBeforeTheTakeover: a member's end that was on disk at a takeover is told again by its machine. It does not
// stand for another member of the gang that the machine has not started yet.
func TestEndsBeforeTheTakeover(t *testing.T) {
	plan := protocol.AttemptPlan{
		Job: "j1", Token: topology.Token{Epoch: 1, Counter: 7}, Spec: leadertest.OneGPU(),
		Resumed: &messages.AttemptRecord{Job: "j1"},
		Targets: []protocol.Target{{Node: "n1", MachineID: "m1", Members: []*messages.Member{{Rank: 1}}}},
		// rank 0 has ended before
	}
	p := leadertest.Ports()
	p.Peers = leadertest.Nodes{}
	c := newCoordinator(p, actor.NewPID("here", "job"), leadertest.Peers.Scheduler, plan).(*Coordinator)
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
		t.Error("the gang is said to have started, and rank 1 was not")
	}
	if !passed(1) {
		t.Error("all members have ended, and the gang is not said to have started")
	}
}

// TestReservedAfterTheTakeover: a Reserved that comes after the takeover, however late or wrong, neither moves nor ends
// what is committed.
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
	c := newCoordinator(p, actor.NewPID("here", "job"), leadertest.Peers.Scheduler, plan).(*Coordinator)
	c.states.Become("resume", coordinatorCommitting)
	w := c.at["n1"]
	w.known, w.Incarnation = true, incarnation
	var said []leadertest.Letter
	c.onReserved(&leadertest.Context{Said: &said}, &messages.Reserved{
		Origin: &messages.Origin{Token: messages.ToToken(plan.Token), Node: "n1", MachineId: "m1", Incarnation: incarnation},
		Grants: []*messages.Grant{{Rank: 0}, {Rank: 1}},
	})
	if len(said) > 0 || w.stage != stageAsked || !c.states.In(coordinatorCommitting) {
		t.Errorf("it is %s, the machine at stage %d, and %d words were said", c.states.At(), w.stage, len(said))
	}
}

// TestOnlyWhatRanIsPastTheBarrier: members that a reboot ended were committed, and perhaps not even prepared: that they
// are gone says nothing of the barrier, and the rest of the gang does not start for their sake. What ran, ran past it.
func TestOnlyWhatRanIsPastTheBarrier(t *testing.T) {
	token := topology.Token{Epoch: 1, Counter: 7}
	att := &messages.AttemptRecord{
		Job: "j1", Token: messages.ToToken(token),
		Places: []*messages.Place{{Node: "n1", MachineId: "m1"}, {Rank: 1, Node: "n2", MachineId: "m2"}},
	}
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_ACTIVE,
		Attempt: att.Token}
	for number := range messages.ExitKind_name {
		kind := messages.ExitKind(number)
		j := newJob(leadertest.Ports(), leadertest.Peers, 1, rec, []*messages.AttemptRecord{att}, nil).(*Job)
		j.token, j.coordinator, j.writing = token, actor.NewPID("here", "attempt"), true
		var said []leadertest.Letter
		j.noteExits(&leadertest.Context{Said: &said}, token, "n1",
			protocol.ToldExits{Exits: []*messages.Exit{{Kind: kind}}}, false)
		got := slices.ContainsFunc(said, func(l leadertest.Letter) bool {
			_,
				is := l.Message.(protocol.RanksGone)
			return is
		})
		want := kind == messages.ExitKind_EXIT_KIND_EXITED || kind == messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST
		if got != want {
			t.Errorf("%v counts as past the barrier: %v", kind, got)
		}
	}
}
