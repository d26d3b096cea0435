package job

import (
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of what a next leader makes of an attempt that was lent its room.

// TestCauseToldTo: an agent of an earlier version hears a cause that it knows: it would refuse another, and stop
// nothing.
func TestCauseToldTo(t *testing.T) {
	const startBy, expired = messages.Cause_CAUSE_START_BY, messages.Cause_CAUSE_EXPIRED
	for vocabulary, want := range map[int32]messages.Cause{
		messages.VocabularyNetwork: expired, messages.VocabularyStartBy: startBy,
	} {
		if got := causeToldTo(&contact{vocabulary: vocabulary}, startBy); got != want {
			t.Errorf("with vocabulary %d: %v, want %v", vocabulary, got, want)
		}
	}
	if got := causeToldTo(&contact{}, messages.Cause_CAUSE_CANCELLED); got != messages.Cause_CAUSE_CANCELLED {
		t.Errorf("a cancel is told as %v", got)
	}
}

// TestTooShortIsKnown: a job says how long it had to start on what it was lent, where that was too short: the planner
// lends to it only where it has twice that. A next leader has it from the attempt's record.
func TestTooShortIsKnown(t *testing.T) {
	token := messages.ToToken(topology.Token{Epoch: 1, Counter: 7})
	rec := &messages.JobRecord{Id: "j", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_QUEUED,
		Attempt: token}
	for cause, want := range map[messages.Cause]time.Duration{
		messages.Cause_CAUSE_START_BY: 12 * time.Second, messages.Cause_CAUSE_REQUEUED: 0,
	} {
		last := &messages.AttemptRecord{
			Job: "j", Token: token, StartByLeftMs: 12_000, End: &messages.End{Cause: cause},
		}
		j := New(leadertest.Ports(), leadertest.Peers, 1, rec, []*messages.AttemptRecord{last}, nil).(*Job)
		said := []leadertest.Letter{}
		j.wait(&leadertest.Context{Said: &said})
		at := slices.IndexFunc(said, func(l leadertest.Letter) bool { _, is := l.Message.(protocol.Waits); return is })
		if at < 0 || said[at].Message.(protocol.Waits).Lent != want {
			t.Errorf("after %v it says %+v, want %v", cause, said, want)
		}
	}
}
