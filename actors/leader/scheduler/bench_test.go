package scheduler

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/messages"
)

// This file owns the tests of the timers of backed-off nodes.

// benchClock is a clock that the test sets. It records the timers for backed-off nodes.
type benchClock struct {
	watchClock
	looks []time.Duration
}

func (c *benchClock) After(d time.Duration, _ *actor.PID, message any) {
	if _, is := message.(endBackOff); is {
		c.looks = append(c.looks, d)
	}
}

// TestBenchedAllTheTime checks that a node which is backed off repeatedly has one timer. The node returns exactly when
// its last back-off ends. A shorter back-off after a long one ends in time.
func TestBenchedAllTheTime(t *testing.T) {
	clock := &benchClock{watchClock: watchClock{now: actors.Instant(time.Hour)}}
	p := newPair(clock)
	p.machine("n1")
	m, ctx := p.machines["n1"], &leadertest.Context{Said: &[]leadertest.Letter{}}
	m.record.Revision, m.ledger = 1, &messages.LedgerReport{}
	for range 100 {
		clock.now = clock.now.Plus(time.Millisecond)
		p.backOff(ctx, m, "it lies")
	}
	if len(clock.looks) != 1 {
		t.Fatalf("benched a hundred times it has timers of %v", clock.looks)
	}
	clock.now = clock.now.Plus(clock.looks[0])
	if p.tell(endBackOff{"n1"}); m.room.BackedOff() == "" || len(clock.looks) != 2 {
		t.Fatalf("the node is back too early, or has no timer: %v", clock.looks)
	}
	m.room.DidWell()
	p.backOff(ctx, m, "it lies")
	if len(clock.looks) != 3 || clock.looks[2] >= clock.looks[1] {
		t.Fatalf("the short back-off ends only with the long one: %v", clock.looks)
	}
	clock.now = clock.now.Plus(clock.looks[2])
	if p.tell(endBackOff{"n1"}); m.room.BackedOff() != "" {
		t.Error("the back-off has ended, but the node is still out")
	}
	p.backOff(ctx, m, "it lies")
	back := m.returns
	clock.now = clock.now.Plus(time.Nanosecond)
	if p.tell(endBackOff{"n1"}); m.room.BackedOff() == "" {
		t.Error("the timer of an ended back-off ended the next one")
	}
	clock.now = back
	if p.tell(endBackOff{"n1"}); m.room.BackedOff() != "" {
		t.Error("the last back-off has no timer")
	}
}
