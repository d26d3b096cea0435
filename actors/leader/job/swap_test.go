package job

import (
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestLateReportOfKept checks a report that a kept node sent before its tasks had ended. It arrives after COMMIT of
// the heir. The node gets no Stop, because that would free the resources. The lost node gets one: the attempt before
// lacks its exit.
func TestLateReportOfKept(t *testing.T) {
	from, heir := topology.Token{Epoch: 1, Counter: 7}, topology.Token{Epoch: 1, Counter: 8}
	gone := &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED}
	before := &messages.AttemptRecord{
		Job: "j1", Token: messages.ToToken(from), StartedUnixMs: 1,
		End:    &messages.End{Cause: messages.Cause_CAUSE_MACHINE_LOST, Node: "n2", HoldMs: 1000},
		Places: []*messages.Place{{Node: "n1", MachineId: "m1", Exit: gone}, {Rank: 1, Node: "n2", MachineId: "m2"}},
	}
	att := &messages.AttemptRecord{
		Job: "j1", Token: messages.ToToken(heir), Inherited: &messages.Inherited{From: before.Token},
		Places: []*messages.Place{{Node: "n1", MachineId: "m1"}, {Rank: 1, Node: "n3", MachineId: "m3"}},
	}
	spec := leadertest.OneGPU()
	spec.Restart = &messages.RestartSpec{InPlace: true, Limit: 1}
	rec := &messages.JobRecord{Id: "j1", Spec: spec, State: messages.JobState_JOB_STATE_ACTIVE, Attempt: att.Token}
	for node, stops := range map[topology.NodeID]bool{"n1": false, "n2": true} { //order: each case stands alone
		p := leadertest.Ports()
		p.Peers = leadertest.Nodes{}
		j := New(p, leadertest.Peers, 1, rec, []*messages.AttemptRecord{before, att}, nil).(*Job)
		j.states.Become("resumed", jobStarting)
		var said []leadertest.Letter
		j.onSighted(&leadertest.Context{Said: &said}, protocol.Sighted{
			Node: node, MachineID: "m" + string(node[1:]), Token: from, Version: 1,
			Incarnation: &messages.Incarnation{}, Vocabulary: messages.Vocabulary,
			Allocation: &messages.SliceReport{State: messages.SliceState_SLICE_STATE_STOPPING},
		})
		got := false
		for _, l := range said {
			_, is := l.Message.(*messages.Stop)
			got = got || is
		}
		if got != stops {
			t.Errorf("%s got a Stop: %v", node, got)
		}
	}
}
