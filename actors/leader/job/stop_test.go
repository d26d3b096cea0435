package job

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestStopSaysSignalAndGrace checks that a Stop contains the signal and the grace of the job. An older agent uses these
// only. A current agent also has both in the allocation's record.
func TestStopSaysSignalAndGrace(t *testing.T) {
	spec := leadertest.OneGPU()
	spec.Stop = &messages.StopSpec{Signal: 10, GraceMs: 7000}
	token := topology.Token{Epoch: 1, Counter: 7}
	att := &messages.AttemptRecord{
		Job: "j1", Token: messages.ToToken(token), End: &messages.End{Cause: messages.Cause_CAUSE_CANCELLED},
		Places: []*messages.Place{{Node: "n1", MachineId: "m1"}},
	}
	rec := &messages.JobRecord{Id: "j1", Spec: spec, State: messages.JobState_JOB_STATE_ACTIVE, Attempt: att.Token}
	p := leadertest.Ports()
	p.Peers = leadertest.Nodes{}
	j := New(p, leadertest.Peers, 1, rec, []*messages.AttemptRecord{att}, nil).(*Job)
	j.contacts["n1"].incarnation = &messages.Incarnation{BootId: "b"}
	var said []leadertest.Letter
	if !j.stopAll(&leadertest.Context{Hears: &actor.Started{}, Said: &said}) || len(said) != 1 {
		t.Fatalf("sent %v", said)
	}
	stop, is := said[0].Message.(*messages.Stop)
	if !is || stop.Signal != 10 || stop.GraceMs != 7000 || stop.Cause != messages.Cause_CAUSE_CANCELLED {
		t.Errorf("sent %v", said[0].Message)
	}
}

// TestFailureForTheDisk checks that the reason of a failed job names the disk limit, with the node's details.
func TestFailureForTheDisk(t *testing.T) {
	exit := &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 137, Signal: 9, Disk: true, Detail: "it kept 2"}
	words := failureWords(&messages.Place{Rank: 3, Node: "n1", Exit: exit})
	if words != "rank 3 on n1 was ended because the disk is full: it kept 2" {
		t.Error(words)
	}
}
