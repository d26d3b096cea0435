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

// This file owns the tests of the start deadline of a backfilled attempt after a takeover.

// TestCauseToldTo checks that an older agent gets a cause that it knows. It would refuse an unknown cause and stop
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
		t.Errorf("cause of a cancel is sent as %v", got)
	}
}

// TestTooShortIsKnown checks that a job reports a start deadline that was too short. The planner backfills the job only
// if it has twice that time. The next leader reads the time from the attempt's record.
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
			t.Errorf("after %v the job sends %+v, want %v", cause, said, want)
		}
	}
}
