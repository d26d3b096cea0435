package scheduler

import (
	"slices"
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// plannerOf is a planner that calls a function.
type plannerOf func() policy.Decisions

func (f plannerOf) Plan(*topology.Tree, *policy.Queue, int64) policy.Decisions { return f() }

// TestPassGoesAhead checks that the pass runs once, with high priority if the host offers it.
func TestPassGoesAhead(t *testing.T) {
	for _, way := range []bool{true, false} {
		var did []string
		p := leadertest.Ports()
		p.Planner = plannerOf(func() policy.Decisions {
			did = append(did, "plans")
			return policy.Decisions{}
		})
		want := []string{"plans"}
		if way {
			want = []string{"ahead", "plans", "as before"}
			p.Ahead = func(run func()) {
				did = append(did, "ahead")
				run()
				did = append(did, "as before")
			}
		}
		s := New(p, Makers{}).(*Scheduler)
		s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
		s.onPlan(&leadertest.Context{Said: new([]leadertest.Letter)})
		if !slices.Equal(did, want) {
			t.Errorf("with a way (%v) a pass is %v", way, did)
		}
	}
}
