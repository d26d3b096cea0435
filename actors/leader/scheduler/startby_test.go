package scheduler

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns the tests of the start deadline of a backfilled attempt after a takeover.

// TestTooShortReachesThePlanner checks that the queue contains the start deadline that was too short for a job.
func TestTooShortReachesThePlanner(t *testing.T) {
	rec := &messages.JobRecord{Id: "j", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_QUEUED}
	s := New(leadertest.Ports(), Makers{}).(*Scheduler)
	s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
	s.jobs["j"] = &livingJob{jobRecord: jobRecord{id: "j", rec: rec}}
	s.onWaits(&leadertest.Context{Said: &[]leadertest.Letter{}}, protocol.Waits{Record: rec, Lent: 12 * time.Second})
	if w, ok := s.queue.Get("j"); !ok || time.Duration(w.Lent) != 12*time.Second {
		t.Errorf("it is known to need more than %v", time.Duration(w.Lent))
	}
}
