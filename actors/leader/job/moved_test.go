package job

import (
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the test of whom an emptied machine takes an attempt from.

// TestMovedOffElsewhere: a machine is emptied that owes a job the end of an earlier attempt. The one in the making goes
// to another machine, and is not given up for that; it is where it goes to that machine.
func TestMovedOffElsewhere(t *testing.T) {
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_QUEUED}
	for _, c := range []struct {
		emptied topology.NodeID
		want    bool
	}{{"n1", false}, {"n2", true}} {
		j := New(leadertest.Ports(), leadertest.Peers, 1, rec, nil, nil).(*Job)
		j.states.Become("queued", jobQueued)
		j.states.Become("admitted", jobReserving)
		j.targets = []protocol.Target{{Node: "n2"}}
		j.noteMoveOff(protocol.MoveOff{Node: c.emptied, Cause: messages.Cause_CAUSE_DRAINED})
		if got := j.moved != nil; got != c.want {
			t.Errorf("%s is emptied: the attempt is given up: %v", c.emptied, got)
		}
	}
}
