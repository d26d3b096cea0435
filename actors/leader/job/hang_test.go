package job

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

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
	c := j.hangCase()
	if c.Tasks != 3 || c.Active != 1 || c.OnTime != 1 || len(c.Ranks) != 1 || c.Floor != messages.DefaultHangFloor {
		t.Fatalf("the case is %+v", c)
	}
	if r := c.Ranks[0]; r.Silent != 110*time.Second || r.Quiet != 90*time.Second || r.Busy || r.Node != "n1" {
		t.Errorf("the rank is %+v", r)
	}
	j.states.Become("resumed", jobStarting)
	j.states.Become("started", jobRunning)
	j.quiet.stall = &messages.Stall{Rank: 1, Text: "stalled: rank 1 on n1 waits"}
	status := &messages.JobStatus{}
	if j.showStall(status); !strings.HasPrefix(status.Reason, "stalled: ") || status.Stall.GetRank() != 1 {
		t.Errorf("the status is %v", status)
	}
}
