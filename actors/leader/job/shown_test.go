package job

import (
	"fmt"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests that the Mirror receives each change before the client gets its answer, because the client
// may query the result at once. It also owns the tests that the Mirror gives the same reasons as the Scheduler.

// shownBefore requires that the Mirror receives this phase before the client gets its answer.
func shownBefore(t *testing.T, said []leadertest.Letter, answer, phase string) {
	t.Helper()
	shown := slices.IndexFunc(said, func(l leadertest.Letter) bool {
		s, is := l.Message.(mirror.JobShown)
		return is && l.To == "mirror" && s.Status.Phase == phase
	})
	answered := slices.IndexFunc(said, func(l leadertest.Letter) bool {
		return l.To == "client" && fmt.Sprintf("%T", l.Message) == answer
	})
	if shown < 0 || answered < 0 || answered < shown {
		t.Errorf("%s was sent as number %d, %q shown as number %d", answer, answered, phase, shown)
	}
}

// TestShownBeforeAcknowledged checks for each answer to a request that the Mirror has received the new state first.
func TestShownBeforeAcknowledged(t *testing.T) {
	who := &messages.Principal{Name: "a"}
	var said []leadertest.Letter
	tell := func(a actor.Actor, m any) {
		a.Receive(&leadertest.Context{Hears: m, Said: &said})
	}
	j := New(leadertest.Ports(), leadertest.Peers, 1, &messages.JobRecord{
		Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_QUEUED,
	}, nil, nil)
	tell(j, &actor.Started{})
	waiting := slices.ContainsFunc(said, func(l leadertest.Letter) bool { _, is := l.Message.(protocol.Waits); return is })
	tell(j, protocol.Acknowledge{Clients: []*actor.PID{actor.NewPID("here", "client")},
		Reply: &messages.SubmitReply{Job: "j1"}})
	if shownBefore(t, said, "*messages.SubmitReply", "queued"); !waiting {
		t.Error("the client is answered before the Scheduler knows that the job waits")
	}
	for _, c := range []struct {
		wish          any
		answer, phase string
	}{
		{&messages.Hold{Principal: who, Job: "j"}, "*messages.HoldReply", "held"},
		{&messages.Hold{Principal: who, Job: "j", Release: true}, "*messages.HoldReply", "queued"},
		{&messages.Cancel{Principal: who, Job: "j"}, "*messages.CancelReply", "cancelled"},
	} {
		said = nil
		tell(j, c.wish)
		at := slices.IndexFunc(said, func(l leadertest.Letter) bool { _, is := l.Message.(protocol.Write); return is })
		if at < 0 {
			t.Fatalf("%T was not written: %v", c.wish, said)
		}
		write := said[at].Message.(protocol.Write)
		said = nil
		tell(j, protocol.Written{Tag: write.Tag, Verdict: actors.Done})
		shownBefore(t, said, c.answer, c.phase)
	}
}

// TestShownBeforeItWaits checks a job that was given up before COMMIT. The Mirror must show it as queued before the job
// asks to be placed. Otherwise the Mirror would get the reason for the wait while it shows the job as reserving.
func TestShownBeforeItWaits(t *testing.T) {
	token := topology.Token{Epoch: 1, Counter: 7}
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU()}
	j := New(leadertest.Ports(), leadertest.Peers, 1, rec, nil, nil).(*Job)
	var said []leadertest.Letter
	j.Receive(&leadertest.Context{Hears: &actor.Started{}, Said: &said})
	j.onAdmit(&leadertest.Context{Said: &said}, protocol.Admit{Token: token})
	said = nil
	j.onAborted(&leadertest.Context{Said: &said}, protocol.Aborted{Token: token})
	shown := slices.IndexFunc(said, func(l leadertest.Letter) bool { _, is := l.Message.(mirror.JobShown); return is })
	waiting := slices.IndexFunc(said, func(l leadertest.Letter) bool { _, is := l.Message.(protocol.Waits); return is })
	if shown < 0 || waiting < shown {
		t.Errorf("sent %v", said)
	}
}
