package scheduler

import (
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestCrossedWish checks a Waits that crosses an admission. The Scheduler ignores it: if the job accepts, it is in no
// queue and its capacity counts. If the job declines, it sends Waits again.
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
