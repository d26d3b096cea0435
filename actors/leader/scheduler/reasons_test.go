package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns the tests that a reason is sent once for all jobs that wait for it.

// watchClock is a clock that the test sets. It records its timers.
type watchClock struct {
	now actors.Instant
	set []time.Duration
}

func (c *watchClock) Now() actors.Instant { return c.now }
func (c *watchClock) WallMs() int64       { return int64(c.now) / 1e6 }
func (c *watchClock) After(d time.Duration, _ *actor.PID, message any) {
	switch message.(type) {
	case tellAgain, showAgain:
		c.set = append(c.set, d)
	}
}

// waitingScheduler leads one node with 8 GPUs that are in use.
func waitingScheduler(clock *watchClock) (*Scheduler, func(m any) []mirror.WaitingShown) {
	p := leadertest.Ports()
	p.Clock = clock
	s := New(p, Makers{}).(*Scheduler)
	s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
	s.states.Become("loaded", schedulerRecovering)
	s.states.Become("waited", schedulerLeading)
	s.view.Tree().Join(topology.Machine{ID: "n1", Total: topology.Resources{MilliGPU: 8000}}, topology.Capacity{})
	s.view.Tree().SetUsable("n1", "")
	return s, func(m any) []mirror.WaitingShown {
		var said []leadertest.Letter
		s.Receive(&leadertest.Context{Hears: m, Said: &said})
		var shown []mirror.WaitingShown
		for _, l := range said {
			if w, is := l.Message.(mirror.WaitingShown); is {
				shown = append(shown, w)
			}
		}
		return shown
	}
}

// TestOutagesAreCounted checks that a node without new work is counted under its cause, and that a schedulable node is
// not. The leader's own reasons against a node are shown for that node. Its count uses its other cause.
func TestOutagesAreCounted(t *testing.T) {
	up := func(change func(m *machine)) *machine {
		m := &machine{up: true, everUp: true, record: &messages.NodeRecord{Revision: 1}, ledger: &messages.LedgerReport{},
			room: &belief.Machine{}}
		change(m)
		return m
	}
	deed := &messages.Deed{By: &messages.Principal{Name: "ann"}, Reason: "a fan"}
	s := &teller{nodeTable: &nodeTable{}}
	for word, change := range map[string]func(m *machine){
		"not heard":  func(m *machine) { m.up, m.everUp = false, false },
		"dead":       func(m *machine) { m.up = false },
		"drained":    func(m *machine) { m.record.Drained = deed },
		"cordoned":   func(m *machine) { m.record.Cordoned = deed },
		"failing":    func(m *machine) { m.ledger.Trouble = "its disk is full" },
		"backed off": func(m *machine) { m.room.BackOff("it refused", time.Second, time.Minute) },
		"":           func(*machine) {},
	} {
		m := up(change)
		s.order = []*machine{m}
		want := ""
		if word != "" {
			want = "1 node " + word
		}
		if got := s.outOfService(); got != want || (m.closed() != "") != (want != "") {
			t.Errorf("%q: summary is %q, closed because %q", word, got, m.closed())
		}
		for said, holdAgainst := range map[string]func(m *machine){
			"admissions have stopped": func(m *machine) { m.halted = "admissions have stopped" },
			"quarantined":             func(m *machine) { m.obeys = 9 },
		} {
			m := up(change)
			holdAgainst(m)
			s.order = []*machine{m}
			if !strings.HasPrefix(m.closed(), said) || s.outOfService() != want {
				t.Errorf("%q, %s: summary is %q, closed because %q", word, said, s.outOfService(), m.closed())
			}
		}
	}
}

// TestTenThousandWaitersCostOneMessage checks ten thousand jobs of one shape. They cause at most one message a second
// with one reason. A job that joins them is reported at once.
func TestTenThousandWaitersCostOneMessage(t *testing.T) {
	clock := &watchClock{now: actors.Instant(time.Hour)}
	s, tell := waitingScheduler(clock)
	join := func(i int) {
		id := topology.JobID(fmt.Sprint("j", i))
		s.jobs[id] = &livingJob{jobRecord: jobRecord{id: id}, queueEntry: queueEntry{noted: true}}
		rec := &messages.JobRecord{Id: string(id), Arrival: uint64(i), Spec: leadertest.OneGPU()}
		s.onWaits(&leadertest.Context{Said: &[]leadertest.Letter{}}, protocol.Waits{Record: rec})
	}
	free := func(milliCPU int64) { s.view.Tree().SetFree("n1", topology.Capacity{MilliCPU: milliCPU}) }
	for i := range 10_000 {
		join(i)
	}
	shown := tell(PlanNow{})
	if len(shown) != 1 || len(shown[0].Groups) != 1 || len(shown[0].Jobs) != 10_000 {
		t.Fatalf("%d messages", len(shown))
	}
	const want = "Resources: needs 1 GPU, 0 of 8 free"
	if got := shown[0].Groups[0].Reason.Text; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	clock.now = clock.now.Plus(400 * time.Millisecond)
	free(1)
	free(2)
	if shown := tell(PlanNow{}); len(shown) != 0 || len(clock.set) != 1 || clock.set[0] != 600*time.Millisecond {
		t.Errorf("%d messages, timers %v", len(shown), clock.set)
	}
	join(20_000)
	if shown := tell(PlanNow{}); len(shown) != 1 || len(shown[0].Groups) != 1 || len(shown[0].Jobs) != 1 ||
		len(clock.set) != 1 {
		t.Errorf("a job joined: %+v, timers %v", shown, clock.set)
	}
	s.view.Tree().Join(topology.Machine{ID: "n2", Total: topology.Resources{MilliGPU: 8000}}, topology.Capacity{})
	clock.now = clock.now.Plus(600 * time.Millisecond)
	shown = tell(tellAgain{})
	if len(shown) != 1 || len(shown[0].Groups) != 1 || len(shown[0].Jobs) != 0 ||
		shown[0].Groups[0].Reason.Text != "Resources: needs 1 GPU, 0 of 16 free" {
		t.Errorf("%+v", shown)
	}
	clock.now = clock.now.Plus(time.Hour)
	if shown := tell(PlanNow{}); len(shown) != 0 || len(clock.set) != 1 {
		t.Errorf("nothing has changed, and %d messages, timers %v", len(shown), clock.set)
	}
}
