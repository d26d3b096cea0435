package job

import (
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestLimitCountsFromTheBarrier checks the time limit after a takeover. It counts from the start of the last node. If
// one node's processes are still starting, the barrier was not passed, and the time of the other nodes does not count.
// If the run ends before all nodes have reported, its run time counts from the last start too. If a node contradicts
// that, the run time is unknown.
func TestLimitCountsFromTheBarrier(t *testing.T) {
	token := topology.Token{Epoch: 1, Counter: 7}
	att := &messages.AttemptRecord{
		Job: "j1", Token: messages.ToToken(token), StartedUnixMs: 1,
		Places: []*messages.Place{{Node: "n1", MachineId: "m1"}, {Rank: 1, Node: "n2", MachineId: "m2"}},
	}
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_ACTIVE,
		Attempt: att.Token}
	for _, c := range []struct {
		name  string
		slice *messages.SliceReport // of the second node
		want  actors.Instant
		ranMs int64
	}{
		{"both run", &messages.SliceReport{State: messages.SliceState_SLICE_STATE_STARTED, RanMs: 2_000}, 8e9, 2_000},
		{"one is being started", &messages.SliceReport{State: messages.SliceState_SLICE_STATE_STARTED}, 10e9, 0},
		{"one is prepared", &messages.SliceReport{State: messages.SliceState_SLICE_STATE_PREPARED}, 10e9, 0},
		{"one is over", &messages.SliceReport{State: messages.SliceState_SLICE_STATE_OVER, RanMs: 3_000}, 7e9, 3_000},
		{"one is over and does not say", &messages.SliceReport{State: messages.SliceState_SLICE_STATE_OVER}, 5e9, 5_000},
	} {
		p := leadertest.Ports()
		p.Clock = &leadertest.Clock{At: 10e9}
		j := New(p, leadertest.Peers, 1, rec, []*messages.AttemptRecord{att}, nil).(*Job)
		j.states.Become("resumed", jobStarting)
		j.begunBefore, j.ranBefore, j.limitFrom = true, true, 9e9
		first := &messages.SliceReport{State: messages.SliceState_SLICE_STATE_STARTED, RanMs: 5_000}
		j.noteBegun(protocol.Sighted{Node: "n1", Token: token, Allocation: first, Heard: 10e9})
		j.noteBegun(protocol.Sighted{Node: "n2", Token: token, Allocation: c.slice, Heard: 10e9})
		if got := j.passedBarrier(); got != c.want {
			t.Errorf("%s: the time counts from %d, want %d", c.name, got, c.want)
		}
		if got := j.ranMs(att); got != c.ranMs {
			t.Errorf("%s: it ran for %d ms, want %d", c.name, got, c.ranMs)
		}
	}
}
