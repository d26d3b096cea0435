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

// TestDeclinedWaitsAgain checks that a job which declines an admission sends Rests at once. Its next Waits names the
// last admission that reached it.
func TestDeclinedWaitsAgain(t *testing.T) {
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_QUEUED}
	offered := topology.Token{Epoch: 1, Counter: 7}
	j := New(leadertest.Ports(), leadertest.Peers, 1, rec, nil, nil).(*Job)
	var said []leadertest.Letter
	j.Receive(&leadertest.Context{Hears: &actor.Started{}, Said: &said})
	j.backedOff, said = j.p.Clock.Now().Plus(1), nil
	j.onAdmit(&leadertest.Context{Said: &said}, protocol.Admit{Token: offered})
	j.backedOff = 0
	j.Receive(&leadertest.Context{Hears: backoffOver{j.timers}, Said: &said})
	if len(said) != 3 || said[1].Message != (protocol.Rests{Job: "j1", Met: offered}) ||
		said[2].Message.(protocol.Waits).Met != offered {
		t.Errorf("after declining and waiting later, the job sent %v", said)
	}
}

// TestHeldIsNotAdmitted checks a Hold that crosses an admission. The job declines the admission at once, so that other
// jobs can use the capacity before COMMIT.
func TestHeldIsNotAdmitted(t *testing.T) {
	for _, held := range []bool{false, true} {
		rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU()}
		if held {
			rec.Hold = &messages.Deed{By: &messages.Principal{Name: "ann"}}
		}
		j := New(leadertest.Ports(), leadertest.Peers, 1, rec, nil, nil).(*Job)
		var said []leadertest.Letter
		j.Receive(&leadertest.Context{Hears: &actor.Started{}, Said: &said})
		said = nil
		j.onAdmit(&leadertest.Context{Said: &said}, protocol.Admit{Token: topology.Token{Epoch: 1, Counter: 7}})
		declines := slices.ContainsFunc(said, func(l leadertest.Letter) bool {
			_,
				is := l.Message.(protocol.Declined)
			return is
		})
		if declines != held || j.states.In(jobQueued) != held {
			t.Errorf("held %v: sent %v, state %q", held, said, j.states.At())
		}
	}
}
