package job

import (
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the test of the effect of a drain on attempts.

// TestMovedOffElsewhere checks a drained node with an unconfirmed allocation of an earlier attempt. A new attempt on
// other nodes continues. A new attempt on the drained node is given up.
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
