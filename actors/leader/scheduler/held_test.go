package scheduler

import (
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestCrossedWish: a wish to be planned that met an admission on its way is passed over: the job that takes that is in
// no queue, and what it has still counts; one that declines says again that it waits.
func TestCrossedWish(t *testing.T) {
	a := newDoor(t)
	_, rec := a.submits(func(*messages.JobSpec) {}, true)
	e := a.s.jobs[topology.JobID(rec.Id)]
	e.offered = topology.Token{Epoch: 1, Counter: 7}
	for _, met := range []topology.Token{{}, {Epoch: 1, Counter: 6}} {
		a.s.onWaits(&leadertest.Context{Said: &a.said}, protocol.Waits{Record: rec, Met: met})
		if _, queued := a.s.queue.Get(e.id); queued {
			t.Fatalf("it met %v, and is planned again", met)
		}
	}
	a.s.onWaits(&leadertest.Context{Said: &a.said}, protocol.Waits{Record: rec, Met: e.offered})
	if _, queued := a.s.queue.Get(e.id); !queued {
		t.Error("it declined, and waits for ever")
	}
}
