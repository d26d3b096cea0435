package coordinator

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestAttemptTellsWhatItTook checks that an attempt's record contains how long its nodes took to reserve and to
// prepare. If an earlier leader committed the attempt, the durations are unknown.
func TestAttemptTellsWhatItTook(t *testing.T) {
	oneCPU := &messages.Resources{MilliCpu: 1000}
	for _, resumed := range []bool{false, true} {
		incarnation := &messages.Incarnation{BootId: "b1", StartedNs: 1}
		plan := protocol.AttemptPlan{
			Job: "j1", Token: topology.Token{Epoch: 1, Counter: 7}, Spec: leadertest.OneGPU(),
			Targets: []protocol.Target{{Node: "n1", MachineID: "m1", Incarnation: incarnation,
				Announced: &messages.Announcement{Address: "10.0.0.1"}, Members: []*messages.Member{{Amount: oneCPU}}}},
		}
		if resumed {
			plan.Resumed = &messages.AttemptRecord{Job: "j1"}
		}
		p, clock := leadertest.Ports(), &leadertest.Clock{At: 10e9}
		p.Clock, p.Peers = clock, leadertest.Nodes{}
		c := New(p, actor.NewPID("here", "job"), leadertest.Peers.Scheduler, plan).(*Coordinator)
		origin := &messages.Origin{
			Token: messages.ToToken(plan.Token), Node: "n1", MachineId: "m1", Incarnation: incarnation, LedgerVersion: 1,
		}
		var said []leadertest.Letter
		hears := func(after time.Duration, message any) {
			clock.At = clock.At.Plus(after)
			c.Receive(&leadertest.Context{Hears: message, Said: &said})
		}
		hears(0, &actor.Started{})
		if c.at["n1"].known = true; !resumed {
			hears(40*time.Millisecond, &messages.Reserved{
				Origin: origin, Grants: []*messages.Grant{{Amount: oneCPU}}, Address: "10.0.0.1", RendezvousPort: 20_000,
			})
			hears(10*time.Millisecond, protocol.Decided{})
		}
		hears(3*time.Second, &messages.Prepared{Origin: origin})
		hears(200*time.Millisecond, &messages.Started{Origin: origin})
		var reserved, prepared time.Duration
		passed := false
		for _, l := range said {
			switch m := l.Message.(type) {
			case protocol.Granted:
				reserved = m.Took
			case protocol.BarrierPassed:
				prepared, passed = m.Prepared, true
			}
		}
		if want := map[bool]time.Duration{false: 3 * time.Second}[resumed]; !passed || prepared != want {
			t.Errorf("resumed %v: past its barrier %v, prepared after %v, want %v", resumed, passed, prepared, want)
		}
		if want := map[bool]time.Duration{false: 40 * time.Millisecond}[resumed]; reserved != want {
			t.Errorf("resumed %v: reserved after %v, want %v", resumed, reserved, want)
		}
	}
}
