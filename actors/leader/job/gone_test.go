package job

import (
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestOnlyWhatRanIsPastTheBarrier checks members that a reboot ended. They were committed, and perhaps not even
// prepared, so their end does not prove that the barrier was passed. The rest of the gang does not start because of
// them. Only a member that ran was past the barrier.
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
		j := New(leadertest.Ports(), leadertest.Peers, 1, rec, []*messages.AttemptRecord{att}, nil).(*Job)
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
