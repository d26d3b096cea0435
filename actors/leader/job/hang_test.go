package job

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// gangOfTwo returns a running job with a rank on each of two nodes, and its clock.
func gangOfTwo() (*Job, *leadertest.Clock, *messages.Token) {
	token := messages.ToToken(topology.Token{Epoch: 1, Counter: 7})
	att := &messages.AttemptRecord{Job: "j1", Token: token, Places: []*messages.Place{
		{Node: "n1", MachineId: "m1"}, {Rank: 1, Node: "n2", MachineId: "m2"},
	}}
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_ACTIVE,
		Attempt: token}
	clock, p := &leadertest.Clock{At: 100e9}, leadertest.Ports()
	p.Clock = clock
	j := New(p, leadertest.Peers, 1, rec, []*messages.AttemptRecord{att}, nil).(*Job)
	j.contact("n1", "m1")
	j.contact("n2", "m2")
	j.states.Become("resumed", jobStarting)
	j.states.Become("started", jobRunning)
	return j, clock, token
}

// TestHangJudgedOncePerSecond checks that reports within a second after a decision lead to one further decision, after
// that second.
func TestHangJudgedOncePerSecond(t *testing.T) {
	j, clock, token := gangOfTwo()
	ctx := &leadertest.Context{Said: new([]leadertest.Letter)}
	reports := func(node topology.NodeID, rank int32, wait messages.Wait) {
		minute := int64(time.Minute)
		j.onProgressHeard(ctx, protocol.ProgressHeard{Node: node, Progress: &messages.AttemptProgress{Token: token, Job: "j1",
			SentNs: 9 * minute, Quiet: []*messages.RankState{{Rank: rank, Reports: true, Late: true, ChangedNs: 7 * minute,
				QuietNs: 7 * minute, Wait: wait}}}})
	}
	reports("n1", 0, messages.Wait_WAIT_PEER)
	clock.At += 1e8
	if reports("n2", 1, messages.Wait_WAIT_LOCK); j.quiet.stall != nil || !j.quiet.due {
		t.Fatalf("a tenth of a second after a decision, there is another one: %+v", j.quiet)
	}
	clock.At += 9e8
	if j.onTimer(ctx, hangDue{}); j.quiet.stall.GetRank() != 1 || j.quiet.due {
		t.Errorf("after a second the hang is %v", j.quiet.stall)
	}
}

// TestHangCase checks that the facts about an attempt are complete only if every node has reported, that ended ranks do
// not count, and that ages continue to grow after a report.
func TestHangCase(t *testing.T) {
	token := topology.Token{Epoch: 1, Counter: 7}
	att := &messages.AttemptRecord{Job: "j1", Token: messages.ToToken(token), Places: []*messages.Place{
		{Node: "n1", MachineId: "m1"}, {Rank: 1, Node: "n1", MachineId: "m1"}, {Rank: 2, Node: "n2", MachineId: "m2"},
		{Rank: 3, Node: "n2", MachineId: "m2", Exit: &messages.Exit{Rank: 3}},
	}}
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_ACTIVE,
		Attempt: att.Token}
	clock := &leadertest.Clock{At: 100e9}
	p := leadertest.Ports()
	p.Clock = clock
	j := New(p, leadertest.Peers, 1, rec, []*messages.AttemptRecord{att}, nil).(*Job)
	second := int64(time.Second)
	j.quiet.nodes = map[topology.NodeID]quietNode{"n1": {&messages.AttemptProgress{
		SentNs: 500 * second, Active: 1, OnTime: 1, Quiet: []*messages.RankState{{Rank: 1, Reports: true, Late: true,
			ChangedNs: 400 * second, QuietNs: 420 * second, Wait: messages.Wait_WAIT_LOCK}},
	}, 90e9}}
	told := j.quiet.nodes["n1"].AttemptProgress
	c := j.hangCase()
	if c.Tasks != 3 || c.Active != 1 || c.OnTime != 1 || len(c.Ranks) != 1 || c.Floor != messages.DefaultHangFloor {
		t.Fatalf("the case is %+v", c)
	}
	if r := c.Ranks[0]; r.Silent != 110*time.Second || r.Quiet != 90*time.Second || r.Busy || r.Node != "n1" {
		t.Errorf("the rank is %+v", r)
	}
	// A node that lies about ranks of another node, about a rank twice, or about their number, adds none.
	told.Quiet = append(told.Quiet, &messages.RankState{Rank: 2, Late: true}, told.Quiet[0], &messages.RankState{Rank: 9})
	told.Active = 1000
	if c := j.hangCase(); c.Active != 1 || len(c.Ranks) != 1 {
		t.Errorf("with a liar the case is %+v", c)
	}
	j.states.Become("resumed", jobStarting)
	j.states.Become("started", jobRunning)
	j.quiet.stall = &messages.Stall{Rank: 1, Text: "stalled: rank 1 on n1 waits"}
	status := &messages.JobStatus{}
	if j.showStall(status); !strings.HasPrefix(status.Reason, "stalled: ") || status.Stall.GetRank() != 1 {
		t.Errorf("the status is %v", status)
	}
}
