package gateway

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file tests the usage of finished jobs.

// member returns one rank of an attempt. A negative code means no exit confirmation.
func member(rank int32, node string, milliGPU int64, code int32, goneMs int64) *messages.Place {
	p := &messages.Place{Rank: rank, Node: node, MachineId: "m-" + node,
		Grant: &messages.Grant{Rank: rank, Amount: &messages.Resources{MilliGpu: milliGPU}}}
	if code >= 0 {
		p.Exit = &messages.Exit{Rank: rank, Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: code, AtUnixMs: goneMs,
			PeakMemoryBytes: 1000 + int64(rank)}
		if code > 128 {
			p.Exit.Signal = code - 128
		}
	}
	return p
}

func TestAccount(t *testing.T) {
	past := &store.PastJob{
		Job: &messages.JobRecord{
			Id: "j", Owner: &messages.Principal{Name: "alice"}, State: messages.JobState_JOB_STATE_CANCELLED,
			Outcome: "cancelled: enough", Runs: 3,
			Spec: &messages.JobSpec{Name: "train", Title: "TRAIN", Queue: "q", Priority: 5,
				Labels: []*messages.Label{{Key: "team", Value: "nlp"}}},
			SubmittedUnixMs: 1_000, FinishedUnixMs: 90_000, InfraRestarts: 1, Failures: 1,
			Cancel: &messages.Deed{AtUnixMs: 80_000, Reason: "enough"},
		},
		Attempts: []*messages.AttemptRecord{
			{ // never started, but its GPUs were held
				Token: &messages.Token{Epoch: 1, Counter: 1}, Run: 1, CommittedUnixMs: 2_000,
				Places: []*messages.Place{member(0, "n1", 1000, 0, 5_000)},
				End:    &messages.End{Cause: messages.Cause_CAUSE_PREPARE_TIMEOUT, Rank: -1, Node: "n1", AtUnixMs: 4_000},
			},
			{ // rank 1 is killed, rank 2's node is lost, rank 3's clock is an hour slow
				Token: &messages.Token{Epoch: 1, Counter: 2}, Run: 2, CommittedUnixMs: 10_000, StartedUnixMs: 12_000,
				Told: &messages.Told{ToldUnixMs: 5_000, ExpectedMs: 6_000},
				Places: []*messages.Place{member(0, "n2", 8000, 143, 21_000), member(1, "n1", 8000, 137, 20_000),
					member(2, "n3", 500, -1, 0), member(3, "n2", 1000, 0, 7)},
				End: &messages.End{Cause: messages.Cause_CAUSE_MEMBER_FAILED, Rank: 1, Node: "n1", Detail: "rank 1",
					AtUnixMs: 20_500},
			},
			{ // no GPU, and gone at once
				Token: &messages.Token{Epoch: 1, Counter: 3}, Run: 3, CommittedUnixMs: 70_000, StartedUnixMs: 71_000,
				Places: []*messages.Place{member(0, "n2", 0, 0, 80_000)},
				End:    &messages.End{Cause: messages.Cause_CAUSE_CANCELLED, Rank: -1, AtUnixMs: 79_000},
			},
		},
	}
	one := account(past, false)
	secondAttempt := int64(8000*11_000 + 8000*10_000 + 500*10_500 + 1000*10_500)
	want := &messages.PastJob{
		Id: "j", Name: "train", Title: "TRAIN", Owner: "alice",
		Queue: "q", Priority: 5, Labels: past.Job.Spec.Labels, State: past.Job.State,
		Reason:          "cancelled: enough",
		SubmittedUnixMs: 1_000, StartedUnixMs: 12_000, FinishedUnixMs: 90_000, Cancel: past.Job.Cancel, Runs: 3, Failures: 1,
		InfraRestarts: 1,
		MilliGpuMs:    1000*3_000 + secondAttempt,
		Attempts: []*messages.PastAttempt{
			{
				Token: past.Attempts[0].Token, Run: 1, CommittedUnixMs: 2_000, EndedUnixMs: 4_000, GoneUnixMs: 5_000,
				Cause:      messages.Cause_CAUSE_PREPARE_TIMEOUT,
				FailedRank: -1, FailedNode: "n1", Members: 1, Nodes: []string{"n1"}, MilliGpu: 1000, MilliGpuMs: 3_000_000,
				PeakMemoryBytes: 1000,
			},
			{
				Token: past.Attempts[1].Token, Run: 2, CommittedUnixMs: 10_000, StartedUnixMs: 12_000, EndedUnixMs: 20_500,
				Told:   past.Attempts[1].Told,
				Cause:  messages.Cause_CAUSE_MEMBER_FAILED,
				Detail: "rank 1", FailedRank: 1, FailedNode: "n1", ExitCode: 137, Signal: 9, Members: 4,
				Nodes:    []string{"n2", "n1", "n3"},
				MilliGpu: 17_500, MilliGpuMs: secondAttempt, PeakMemoryBytes: 1003,
			},
			{
				Token: past.Attempts[2].Token, Run: 3, CommittedUnixMs: 70_000, StartedUnixMs: 71_000, EndedUnixMs: 79_000,
				GoneUnixMs: 80_000,
				Cause:      messages.Cause_CAUSE_CANCELLED, FailedRank: -1, Members: 1, Nodes: []string{"n2"},
				PeakMemoryBytes: 1000,
			},
		},
	}
	if !proto.Equal(one, want) {
		t.Errorf("the account is\n%v\nwant\n%v", one, want)
	}
	for i, a := range account(past, true).Attempts {
		if len(a.Places) != len(past.Attempts[i].Places) {
			t.Errorf("run %d has %d of its members", i+1, len(a.Places))
		}
	}
}

// TestAccountClockAhead checks that a node with a clock that jumped, or that returned late, does not count longer
// than the attempt lasted by the leader's clock.
func TestAccountClockAhead(t *testing.T) {
	hour := int64(3_600_000)
	past := &store.PastJob{
		Job: &messages.JobRecord{Id: "j", State: messages.JobState_JOB_STATE_SUCCEEDED, FinishedUnixMs: 60_000},
		Attempts: []*messages.AttemptRecord{
			{
				Token: &messages.Token{Epoch: 1, Counter: 1}, Run: 1, CommittedUnixMs: 10_000, StartedUnixMs: 11_000,
				Places: []*messages.Place{member(0, "n1", 1000, 7, 10_000+hour)}, End: &messages.End{AtUnixMs: 20_000},
			},
			{
				Token: &messages.Token{Epoch: 1, Counter: 2}, Run: 2, CommittedUnixMs: 30_000, StartedUnixMs: 31_000,
				Places: []*messages.Place{member(0, "n1", 2000, 0, 30_000+hour), member(1, "n2", 1000, 0, 50_000)},
				End:    &messages.End{AtUnixMs: 55_000},
			},
			{ // the leader's clock went back
				Token: &messages.Token{Epoch: 1, Counter: 3}, Run: 3, CommittedUnixMs: 70_000,
				Places: []*messages.Place{member(0, "n1", 1000, 0, 80_000)}, End: &messages.End{AtUnixMs: 65_000},
			},
		},
	}
	one := account(past, false)
	for i, want := range []int64{1000 * 20_000, 2000*40_000 + 1000*20_000, 0} {
		if got := one.Attempts[i].MilliGpuMs; got != want {
			t.Errorf("run %d: %d GPU-milliseconds, want %d", i+1, got, want)
		}
	}
	if gone := one.Attempts[0].GoneUnixMs; gone != 30_000 {
		t.Errorf("the first was gone at %d", gone)
	}
}
