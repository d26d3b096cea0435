package coordinator

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of the start deadline of a backfilled attempt after a takeover.

func both(a, b *messages.SliceReport) [2]*messages.SliceReport { return [2]*messages.SliceReport{a, b} }

// TestLateAfterATakeover checks an attempt with 30 s left at COMMIT. The new leader takes over at 100 s and hears two
// nodes. If all tasks started in time, the barrier was passed. Otherwise the attempt ends when no time is left or no
// node can prove that there is any.
func TestLateAfterATakeover(t *testing.T) {
	slice := func(heldMs, ranMs int64) *messages.SliceReport {
		state := messages.SliceState_SLICE_STATE_PREPARED
		if ranMs >= 0 {
			state = messages.SliceState_SLICE_STATE_STARTED
		}
		return &messages.SliceReport{State: state, HeldMs: heldMs, RanMs: max(ranMs, 0)}
	}
	for _, test := range []struct {
		name   string
		says   [2]*messages.SliceReport // nil: not heard yet
		late   bool                     // at 119 s
		by120s bool
	}{
		{"both are prepared", both(slice(10_000, -1), slice(9_000, -1)), false, true},
		{"one does not say for how long", both(slice(10_000, -1), slice(0, -1)), false, true},
		{"the longer one counts", both(slice(12_000, -1), slice(1, -1)), true, true},
		{"neither says for how long", both(slice(0, -1), slice(0, -1)), true, true},
		{"one does not say, and one is awaited", both(slice(0, -1), nil), false, false},
		{"one is being started", both(slice(10_000, 0), slice(10_000, 1_000)), false, true},
		{"both began in time", both(slice(40_000, 12_000), slice(40_000, 11_000)), false, false},
		{"one began too late", both(slice(40_000, 12_000), slice(40_000, 9_000)), true, true},
		{"one began, one is awaited", both(slice(40_000, 12_000), nil), false, false},
		{"one began, one has yet to", both(slice(40_000, 12_000), slice(40_000, -1)), true, true},
		{"both began, by what earlier agents say", both(slice(0, 1_000), slice(0, 1_000)), false, false},
	} {
		targets := []protocol.Target{
			{Node: "n1", Members: []*messages.Member{{}}}, {Node: "n2", Members: []*messages.Member{{Rank: 1}}},
		}
		clock := &leadertest.Clock{At: 100e9}
		p := leadertest.Ports()
		p.Clock, p.Since = clock, clock.At
		token := messages.ToToken(topology.Token{Epoch: 1, Counter: 7})
		c := New(p, leadertest.Peers.Mirror, leadertest.Peers.Scheduler, protocol.AttemptPlan{
			Job: "j", Token: messages.FromToken(token), Spec: leadertest.OneGPU(), Targets: targets,
			Resumed: &messages.AttemptRecord{Token: token, StartByLeftMs: 30_000},
		}).(*Coordinator)
		for i, said := range test.says {
			if said != nil {
				c.parties[i].known = true
				c.noteHeld(&leadertest.Context{Said: &[]leadertest.Letter{}}, c.parties[i], said)
			}
		}
		for at, want := range map[actors.Instant]bool{119e9: test.late, 120e9: test.by120s} {
			clock.At = at
			if got := c.overdue(); got != want {
				t.Errorf("%s: late at %v is %t, want %t", test.name, time.Duration(at), got, want)
			}
		}
	}
}

// TestNeverLate checks that an attempt is never late if its barrier is on disk or if it was not backfilled.
func TestNeverLate(t *testing.T) {
	for _, a := range []*messages.AttemptRecord{{StartByLeftMs: 30_000, StartedUnixMs: 1}, {}} {
		if got := allowanceOf(&protocol.AttemptPlan{Resumed: a}); got != (allowance{}) {
			t.Errorf("%v gives %v", a, got)
		}
	}
}
