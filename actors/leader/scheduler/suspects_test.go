package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
	"github.com/yi-json/synapse/topology/suspicion"
)

// court is a Scheduler with nodes n0, n1 and so on, and the last status of each.
type court struct {
	t     *testing.T
	s     *Scheduler
	clock *leadertest.Clock
	shown map[string]*messages.NodeStatus
	made  uint64
}

func newCourt(t *testing.T, nodes int) *court {
	c := &court{t: t, clock: &leadertest.Clock{At: 100e9}, shown: map[string]*messages.NodeStatus{}}
	p := leadertest.Ports()
	p.Clock, p.Planner, p.Settings = c.clock, nil, policy.DefaultSettings()
	c.s = New(p, Makers{}).(*Scheduler)
	c.s.peers, c.s.self = leadertest.Peers, leadertest.Peers.Scheduler
	c.s.owners.see("ann")
	c.s.owners.see("bob")
	for i := range nodes {
		m := c.s.machine(topology.NodeID(fmt.Sprint("n", i)))
		m.record = &messages.NodeRecord{Id: string(m.id), Revision: 1, Announcement: &messages.Announcement{}}
		m.up, m.everUp, m.halted = true, true, ""
		c.s.view.Join(m.room, m.describe(nil), m.standing())
	}
	return c
}

func (c *court) hears(message any) {
	ctx := &leadertest.Context{Hears: message, Said: &[]leadertest.Letter{}}
	c.s.Receive(ctx)
	for _, l := range *ctx.Said {
		if n, is := l.Message.(mirror.NodeShown); is {
			c.shown[n.Status.Record.Id] = n.Status
		}
	}
}

// fails makes a job of an owner fail because of a node, an hour after the last failure.
func (c *court) fails(node, owner string) {
	c.made++
	c.clock.At = c.clock.At.Plus(time.Hour)
	c.hears(protocol.Accused{
		Token: topology.Token{Epoch: 1, Counter: c.made}, Job: topology.JobID(fmt.Sprint("j", c.made)), Owner: owner,
		Node: topology.NodeID(node), Class: messages.FailureClass_FAILURE_CLASS_GPU, Reason: "Xid 79",
	})
}

// TestLemon checks the life of a node that causes failures: it is suspected, backed off for a day, and returns.
func TestLemon(t *testing.T) {
	c := newCourt(t, 20)
	c.fails("n3", "ann")
	if s := c.shown["n3"]; s.GetSuspicion().GetSuspected() || len(s.GetSuspicion().GetFailures()) != 1 {
		t.Errorf("after one failure: %v", s)
	}
	c.fails("n3", "bob")
	s := c.shown["n3"]
	if !s.GetSuspicion().GetSuspected() || s.Closed != "" || messages.SuspicionWords(s.Suspicion) !=
		"suspected: 2 failures of jobs of 2 owners (gpu)" {
		t.Errorf("after two failures: %v", s)
	}
	c.fails("n3", "ann")
	s = c.shown["n3"]
	if !strings.HasPrefix(s.Closed, "backed off: 3 failures of jobs count against it") ||
		s.Suspicion.BackedOffUntilUnixMs != c.clock.WallMs()+suspicion.FirstRest.Milliseconds() {
		t.Errorf("after three failures: %v", s)
	}
	who := c.s.machines["n3"]
	if ends := who.backOffEnds(); ends != int64(c.clock.At.Plus(suspicion.FirstRest)) {
		t.Errorf("the horizon knows the end %d", ends)
	}
	c.hears(restEnds{"n3"}) // too early
	if c.shown["n3"].Closed == "" {
		t.Error("the back-off ends too early")
	}
	c.clock.At = c.clock.At.Plus(suspicion.FirstRest)
	if c.hears(restEnds{"n3"}); c.shown["n3"].Closed != "" || who.backOffEnds() != 0 {
		t.Errorf("after a day: %v", c.shown["n3"])
	}
	c.fails("n3", "bob")
	if s := c.shown["n3"]; s.Suspicion.BackedOffUntilUnixMs != c.clock.WallMs()+2*suspicion.FirstRest.Milliseconds() {
		t.Errorf("the second back-off: %v", s)
	}
	c.clock.At = c.clock.At.Plus(30 * suspicion.HalfLife)
	c.hears(restEnds{"n3"})
	if c.hears(tidySuspects{}); c.shown["n3"].Suspicion != nil || len(c.s.suspects.named) > 0 {
		t.Errorf("after two months: %v", c.shown["n3"])
	}
}

// TestLemonsAreFew checks that at most one node in ten is backed off, and none of a small pool.
func TestLemonsAreFew(t *testing.T) {
	for nodes, want := range map[int]int{9: 0, 20: 2, 63: 6} {
		c := newCourt(t, nodes)
		for i := range nodes {
			for _, owner := range []string{"ann", "bob", "ann"} {
				c.fails(fmt.Sprint("n", i), owner)
			}
		}
		off := 0
		for _, s := range c.shown {
			if s.Closed != "" {
				off++
			}
		}
		if off != want {
			t.Errorf("%d of %d nodes are backed off, want %d", off, nodes, want)
		}
	}
}

// newIdleCourt returns a court with a leader and 8 free GPUs per node.
func newIdleCourt(t *testing.T, nodes int) *court {
	c := newCourt(t, nodes)
	c.s.states.Become("loaded", schedulerRecovering)
	c.s.states.Become("all heard", schedulerLeading)
	for _, m := range c.s.order {
		m.record.Announcement.Total = &messages.Resources{MilliCpu: 64_000, MilliGpu: 8000}
		m.room.Report(belief.Books{Version: 1, Free: topology.Capacity{MilliCPU: 64_000, WholeGPUs: 8}})
		c.s.view.Join(m.room, m.describe(nil), m.standing())
		c.s.view.Settle(m.room, m.standing())
	}
	return c
}

// TestRestEndsForPlannedStart checks that a rest ends if it would delay a planned start. A job needs the complete node,
// and another job uses half of the node for an hour.
func TestRestEndsForPlannedStart(t *testing.T) {
	c := newIdleCourt(t, 20)
	for _, owner := range []string{"ann", "bob", "ann"} {
		c.fails("n3", owner)
	}
	who, ends := c.s.machines["n3"], int64(c.clock.At.Plus(time.Hour))
	half := topology.Resources{MilliCPU: 1000, MilliGPU: 4000}
	token := topology.Token{Epoch: 1, Counter: 99}
	who.room.Report(belief.Books{
		Version: 2, Free: topology.Capacity{MilliCPU: 63_000, WholeGPUs: 4},
		Allocations: []belief.Allocation{{Token: token, Committed: true}},
	})
	who.room.Lodge(&belief.Lodger{Token: token, Job: "j-runs", Stay: &belief.Stay{Hard: ends, Likely: ends}}, half)
	c.s.refresh(&leadertest.Context{Said: &[]leadertest.Letter{}}, who)
	c.s.queue.Add(policy.Waiting{Job: "j-waits", Gang: topology.Gang{
		Replicas: 1, Each: topology.Resources{MilliCPU: 1000, MilliGPU: 8000}, Only: []topology.NodeID{"n3"},
	}})
	if c.s.planner.Plan(c.s.view.Tree(), c.s.queue, int64(c.clock.At)); who.rest.why == "" {
		t.Fatal("n3 does not rest")
	}
	if c.hears(restsNeeded{}); who.rest.why != "" {
		t.Errorf("n3 rests until %d, and delays a job until then", who.rest.ends)
	}
}

// TestRestEndsForWaitingJob checks that a node rests only while no waiting job needs it: neither a job that names the
// node, nor a gang of all nodes.
func TestRestEndsForWaitingJob(t *testing.T) {
	for _, x := range []struct {
		name    string
		gang    topology.Gang
		drained bool
		rests   bool
	}{
		{"a job of one GPU", topology.Gang{Replicas: 1}, false, true},
		{"a job that names it", topology.Gang{Replicas: 1, Only: []topology.NodeID{"n3"}}, false, false},
		{"a job that names it while it is drained", topology.Gang{Replicas: 1, Only: []topology.NodeID{"n3"}}, true, true},
		{"a gang of 19 nodes", topology.Gang{Replicas: 19 * 8}, false, true},
		{"a gang of 20 nodes", topology.Gang{Replicas: 20 * 8}, false, false},
	} {
		c := newIdleCourt(t, 20)
		for _, owner := range []string{"ann", "bob", "ann"} {
			c.fails("n3", owner)
		}
		if x.drained {
			c.s.machines["n3"].record.Drained = &messages.Deed{By: &messages.Principal{Name: "root"}}
		}
		c.hears(restsNeeded{})
		if c.shown["n3"].Closed == "" {
			t.Fatalf("%s: the rest ends although no job waits", x.name)
		}
		x.gang.Each = topology.Resources{MilliCPU: 1000, MilliGPU: 1000}
		c.s.queue.Add(policy.Waiting{Job: "j-waits", Gang: x.gang})
		c.hears(restsNeeded{})
		s := c.shown["n3"]
		if rests := s.Suspicion.BackedOffUntilUnixMs > 0; rests != x.rests || !s.Suspicion.Suspected ||
			len(s.Suspicion.Failures) != 3 || (len(c.s.suspects.resting) > 0) != x.rests {
			t.Errorf("%s waits: %v", x.name, s)
		}
		if ends := c.s.machines["n3"].backOffEnds(); (ends > 0) != (x.rests && !x.drained) {
			t.Errorf("%s waits: the horizon knows the end %d", x.name, ends)
		}
	}
}

// TestSuspicionOutlivesLeader checks that a new leader continues with failures and backoffs: with those of the last
// record, and with those of attempts that ended after that.
func TestSuspicionOutlivesLeader(t *testing.T) {
	c := newIdleCourt(t, 20)
	for _, owner := range []string{"ann", "bob", "ann"} {
		c.fails("n3", owner)
	}
	c.fails("n4", "ann")
	c.fails("n19", "ann")
	c.hears(saveLearned{})
	policy := c.s.learning.next
	next := newIdleCourt(t, 19) // n19 was removed
	next.clock.At, next.made = 7e9, 10
	ended := actors.Ended{
		Job: &messages.JobRecord{Id: "j9", Owner: &messages.Principal{Name: "bob"}},
		Attempt: &messages.AttemptRecord{
			Job: "j9", Token: &messages.Token{Epoch: 1, Counter: 9},
			End: &messages.End{Cause: messages.Cause_CAUSE_GPU_FAULT, RanMs: 1},
			Verdict: &messages.Verdict{
				Node: "n4", Class: messages.FailureClass_FAILURE_CLASS_GPU, Reason: "Xid 79",
			},
		},
	}
	of := proto.CloneOf(ended.Attempt.Verdict)
	of.Charged = true // the failure of a program does not count
	own := actors.Ended{Job: ended.Job, Attempt: &messages.AttemptRecord{
		Job: "j8", Token: &messages.Token{Epoch: 1, Counter: 8}, End: ended.Attempt.End, Verdict: of,
	}}
	said := &[]leadertest.Letter{}
	next.s.recallSuspects(&leadertest.Context{Said: said}, actors.Loaded{
		Policy: policy, Unlearned: []actors.Ended{ended, own},
	})
	left := suspicion.FirstRest - 2*time.Hour // two more failures came after the third
	who := next.s.machines["n3"]
	if who.rest.ends != next.clock.At.Plus(left) || !strings.Contains(who.closed(), "3 failures") ||
		who.rest.why != c.s.machines["n3"].rest.why {
		t.Errorf("n3 is %q until %d", who.closed(), who.rest.ends)
	}
	got, want := next.s.suspicionOf(who), c.s.suspicionOf(c.s.machines["n3"])
	want.BackedOffUntilUnixMs = got.BackedOffUntilUnixMs
	if !proto.Equal(got, want) {
		t.Errorf("n3 has %v, and had %v", got, want)
	}
	if words := messages.SuspicionWords(next.s.suspicionOf(next.s.machines["n4"])); words !=
		"suspected: 2 failures of jobs of 2 owners (gpu)" {
		t.Errorf("n4 is %q", words)
	}
	if len(next.s.suspects.docket.Known()) != 2 {
		t.Errorf("the new leader knows %v", next.s.suspects.docket.Known())
	}
	next.clock.At = next.clock.At.Plus(left)
	if next.hears(restEnds{"n3"}); who.rest.why != "" {
		t.Errorf("n3 still rests: %s", who.rest.why)
	}
	if next.fails("n3", "bob"); who.rest.ends.Since(next.clock.At) != 2*suspicion.FirstRest {
		t.Errorf("the second backoff takes %s", who.rest.ends.Since(next.clock.At))
	}
}

// TestOperatorDecides checks that failures on a cordoned node do not count, and that uncordon ends a back-off and
// forgets the failures.
func TestOperatorDecides(t *testing.T) {
	c := newCourt(t, 20)
	who := c.s.machines["n3"]
	who.record.Cordoned = &messages.Deed{By: &messages.Principal{Name: "root"}}
	for range 3 {
		c.fails("n3", "ann")
		c.fails("n3", "bob")
	}
	if s := c.s.suspicionOf(who); s != nil {
		t.Errorf("a cordoned node has %v", s)
	}
	who.record.Cordoned = nil
	for _, owner := range []string{"ann", "bob", "ann"} {
		c.fails("n3", owner)
	}
	if who.closed() == "" {
		t.Fatal("three failures do not count after uncordon")
	}
	c.hears(saveLearned{})
	if known := c.s.learning.next.NodeFailures; len(known) != 1 {
		t.Errorf("the next leader learns %v", known)
	}
	c.s.learning.saving = false
	c.s.believeAgain(&leadertest.Context{Said: &[]leadertest.Letter{}}, who)
	if !c.s.learning.due {
		t.Error("the next leader does not learn of the uncordon")
	}
	c.hears(saveLearned{})
	if known := c.s.learning.next.NodeFailures; len(known) != 0 {
		t.Errorf("after uncordon, the next leader learns %v", known)
	}
	if s := c.s.suspicionOf(who); s != nil || who.closed() != "" || len(c.s.suspects.named) > 0 {
		t.Errorf("after uncordon: %v, %s", s, who.closed())
	}
}

// TestBigGangAvoidsSuspect checks that the planner's view knows the suspects.
func TestBigGangAvoidsSuspect(t *testing.T) {
	c := newCourt(t, 20)
	for _, m := range c.s.order {
		m.record.Announcement.Total = &messages.Resources{MilliCpu: 64_000, MilliGpu: 8000}
		c.s.view.Join(m.room, m.describe(nil), m.standing())
		c.s.view.Tree().SetFree(m.id, topology.Capacity{MilliCPU: 64_000, WholeGPUs: 8})
	}
	gang := topology.Gang{Replicas: 2, Each: topology.Resources{MilliCPU: 1000, MilliGPU: 8000}}
	first := func() string {
		var r topology.Refusal
		p, ok := topology.PlaceWary(c.s.view.Tree(), &gang, topology.Lent{}, &r)
		if !ok {
			t.Fatal(r.String())
		}
		return fmt.Sprint(p.Nodes())
	}
	if got := first(); got != "[n0 n1]" {
		t.Fatalf("without suspects: %s", got)
	}
	c.fails("n0", "ann")
	c.fails("n0", "bob")
	c.s.view.Tree().SetFree("n0", topology.Capacity{MilliCPU: 64_000, WholeGPUs: 8})
	if got := first(); strings.Contains(got, "n0 ") {
		t.Errorf("with the suspect n0: %s", got)
	}
}
