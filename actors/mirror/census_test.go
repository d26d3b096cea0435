package mirror

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of the census: nothing is counted twice, and nothing is missing.

// moving is a clock that the test advances, and a host that records the reported durations.
type moving struct {
	actors.Host
	now  time.Duration
	took []string
}

func (c *moving) Now() actors.Instant                  { return actors.Instant(c.now) }
func (c *moving) WallMs() int64                        { return 12*3600*1000 + c.now.Milliseconds() }
func (c *moving) After(time.Duration, *actor.PID, any) {}
func (c *moving) Count(string, int64)                  {}
func (c *moving) Took(name string, d time.Duration)    { c.took = append(c.took, name+" "+d.String()) }

func counting() (*Mirror, *moving) {
	c := &moving{}
	p := &actors.Ports{Constants: actors.DefaultConstants(), Clock: c, Host: c}
	return New(p, 1, []string{"rack"}).(*Mirror), c
}

// attemptOf returns a committed attempt that holds the given thousandths of GPUs, one value per node.
func attemptOf(counter uint64, atMs int64, milli ...int64) *messages.AttemptRecord {
	token := messages.ToToken(topology.Token{Epoch: 1, Counter: counter})
	a := &messages.AttemptRecord{Token: token, CommittedUnixMs: atMs}
	for i, m := range milli {
		a.Places = append(a.Places, &messages.Place{
			Rank: int32(i), Node: fmt.Sprint("n", i), Grant: &messages.Grant{Amount: &messages.Resources{MilliGpu: m}},
		})
	}
	return a
}

func with(a *messages.AttemptRecord) func(*messages.JobStatus) {
	return func(s *messages.JobStatus) { s.Attempt = a }
}

// TestGPUSecondsAreSummed checks that an attempt's GPUs are charged once, from the COMMIT to the end of the attempt.
// Updates during the attempt and exits of its tasks do not change the sum.
func TestGPUSecondsAreSummed(t *testing.T) {
	m, clock := counting()
	share := func() string {
		c := ask(m, CountAll{}).(*Census)
		if len(c.Owners) != 1 || len(c.Queues) != 1 || c.Owners[0].Spent != c.Queues[0].Spent {
			t.Fatalf("owners %v, queues %v", c.Owners, c.Queues)
		}
		o := c.Owners[0]
		return fmt.Sprintf("%s runs %d waits %d held %d spent %d", o.Name, o.Running, o.Waiting, o.Held, o.Spent/1_000_000)
	}
	see := func(after time.Duration, want string) {
		t.Helper()
		clock.now += after
		if got := share(); got != want {
			t.Errorf("after %s: %s, want %s", clock.now, got, want)
		}
	}
	noon := int64(12 * 3600 * 1000)
	job := func(phase string, edit ...func(*messages.JobStatus)) {
		s := statusOf("j1", "alice", phase, edit...)
		s.Record.SubmittedUnixMs = noon - 60_000
		s.Record.Spec.Each, s.Record.Spec.Gang = &messages.Resources{MilliGpu: 4000}, &messages.GangSpec{ReplicasMin: 2}
		ask(m, JobShown{s})
	}
	job("queued")
	see(time.Hour, "alice runs 0 waits 1 held 0 spent 0")
	first := attemptOf(1, noon+3600_000, 4000, 4000)
	first.Told = &messages.Told{ToldUnixMs: noon, ExpectedMs: 3540_000}
	job("starting", with(first))
	see(10*time.Second, "alice runs 1 waits 0 held 8000 spent 80")
	job("running", with(first))
	see(10*time.Second, "alice runs 1 waits 0 held 8000 spent 160")
	ended := attemptOf(1, noon+3600_000, 4000, 4000)
	ended.End = &messages.End{}
	job("stopping", with(ended))
	see(time.Hour, "alice runs 0 waits 0 held 0 spent 160")
	job("queued", with(ended))
	second := attemptOf(2, noon+9000_000, 1000)
	job("running", with(second))
	see(500*time.Millisecond, "alice runs 1 waits 0 held 8000 spent 160")
	see(500*time.Millisecond, "alice runs 1 waits 0 held 8000 spent 161")
	job("succeeded", with(second), overAt(noon))
	see(time.Hour, "alice runs 0 waits 0 held 0 spent 161")
	want := "[job.wait 1h1m0s promise.late 1m0s job.wait 2h31m0s]"
	if got := fmt.Sprint(clock.took); got != want {
		t.Errorf("took %s, want %s", got, want)
	}
}

// TestRecoveredJobsAreNotMeasured checks an attempt that started under an earlier leader. Its GPUs are charged from the
// takeover on, and it does not count as a new start.
func TestRecoveredJobsAreNotMeasured(t *testing.T) {
	m, clock := counting()
	ask(m, JobShown{statusOf("j1", "alice", "running", with(attemptOf(1, 1, 8000)))})
	clock.now = 2 * time.Second
	if c := ask(m, CountAll{}).(*Census); c.Owners[0].Spent != 16_000_000 || len(clock.took) != 0 {
		t.Errorf("%v, took %v", c.Owners, clock.took)
	}
}

// TestWaitingIsCounted checks that waiting jobs are counted by reason code and by age.
func TestWaitingIsCounted(t *testing.T) {
	m, _ := counting()
	noon := int64(12 * 3600 * 1000)
	wait := func(id string, age time.Duration, edit ...func(*messages.JobStatus)) {
		s := statusOf(id, "alice", "queued", edit...)
		s.Record.SubmittedUnixMs = noon - age.Milliseconds()
		ask(m, JobShown{s})
	}
	wait("a", time.Minute)
	wait("b", time.Hour+time.Second)
	wait("c", 300*time.Hour)
	wait("d", 0, func(s *messages.JobStatus) { s.Phase, s.Record.Hold = "held", &messages.Deed{} })
	wait("e", 0, func(s *messages.JobStatus) { s.Record.Spec.BeginUnixMs = noon + 1 })
	wait("f", 0, func(s *messages.JobStatus) { s.Debts = []string{"n1"} })
	wait("g", 0, func(s *messages.JobStatus) { s.Record.NotBeforeUnixMs = noon + 1 })
	wait("h", 0)
	ask(m, WaitingShown{
		Groups: []GroupReason{{Group: 1, Reason: messages.WaitResources.Because("x")},
			{Group: 2, Reason: messages.WaitPriority.Because("y")}},
		Jobs: []policy.Joined{{Job: "a", Group: 1, Turn: "a"}, {Job: "b", Group: 1, Turn: "b"},
			{Job: "c", Group: 2, Turn: "c"}},
	})
	got := ask(m, CountAll{}).(*Census)
	want := [messages.WaitCodes][len(WaitAges) + 1]int{
		messages.WaitResources: {1, 0, 0, 1, 0, 0}, messages.WaitPriority: {0, 0, 0, 0, 0, 1}, messages.WaitHeld: {1},
		messages.WaitBeginTime: {1}, messages.WaitUnconfirmed: {2}, messages.WaitEvaluating: {1},
	}
	if got.Waiting != want || got.Oldest != 300*time.Hour {
		t.Errorf("%v, the oldest %s, want %v", got.Waiting, got.Oldest, want)
	}
	ask(m, PlanningShown{messages.WaitHalted.Because("nothing is planned")})
	if got := ask(m, CountAll{}).(*Census); got.Waiting[messages.WaitHalted][0] != 1 {
		t.Errorf("h waits for nothing: %v", got.Waiting)
	}
}

// TestGPUsAreInOneState checks that the states of GPUs add up to the announced total, and that free GPUs are counted by
// domain.
func TestGPUsAreInOneState(t *testing.T) {
	m, _ := counting()
	var tree topology.Changes
	machine := func(id, rack, kind, phase string, out Outage, free int64, kept int64, withdrawn ...string) {
		a := &messages.Announcement{Total: &messages.Resources{MilliGpu: 8000}}
		for i := range 8 {
			a.Gpus = append(a.Gpus, &messages.Gpu{Id: fmt.Sprint(i), Type: kind})
		}
		ask(m, NodeShown{Outage: out, Status: &messages.NodeStatus{
			Record: &messages.NodeRecord{Id: id, Announcement: a}, Phase: phase,
			Ledger: &messages.LedgerReport{Free: &messages.Resources{MilliGpu: free}, WithdrawnGpus: withdrawn},
		}})
		why := ""
		if out != InService {
			why = "out"
		}
		seen := topology.Seen{
			ID: topology.NodeID(id), Why: why, Free: topology.Capacity{WholeGPUs: int32(free / 1000)},
			Machine: &topology.Machine{
				ID: topology.NodeID(id), Place: []string{rack}, GPUType: kind, Broken: int32(len(withdrawn)),
				Total: topology.Resources{MilliGPU: 8000 - int64(len(withdrawn))*1000},
			},
		}
		tree.Machines = append(tree.Machines, seen)
		if kept > 0 {
			tree.Kept = append(tree.Kept, topology.Kept{ID: topology.KeepID("j-" + id), Slots: []topology.Slot{
				{Node: topology.NodeID(id), Amount: topology.Resources{MilliGPU: kept}},
			}})
		}
	}
	machine("n1", "r1", "h100", "up", InService, 8000, 3000)
	machine("n2", "r1", "h100", "up", InService, 5000, 0, "1", "2")
	machine("n3", "r2", "h100", "up", BackedOff, 8000, 0)
	machine("n4", "r2", "h100", "up", Closed, 6000, 0)
	machine("n5", "r3", "a100", "dead", Unreachable, 8000, 0)
	machine("n6", "r3", "a100", "up", InService, 8000, 0)
	ask(m, RoomsShown{Changes: tree, Holders: make([][]topology.Holder, len(tree.Machines))})
	c := ask(m, CountAll{}).(*Census)
	want := "[{a100 [8000 0 0 0 0 0 8000]} {h100 [0 2000 3000 8000 6000 3000 10000]}]"
	if got := fmt.Sprint(c.Stocks); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	levels := "[{rack 3 13000 21000} {node 6 8000 5000}]"
	if got := fmt.Sprint(c.Levels); got != levels {
		t.Errorf("%s, want %s", got, levels)
	}
	if got := fmt.Sprint(c.Machines, c.Outages); got != "[5 1 0] [3 1 1 1]" {
		t.Error(got)
	}
}

// TestNamesAreBounded checks that shares beyond the limit are counted together without a name.
func TestNamesAreBounded(t *testing.T) {
	u := newUsage()
	one := messages.JobUse{Running: 1, InUse: topology.Resources{MilliGPU: 1}}
	for i := range maxShares + 50 {
		u.change(0, tally{}, tally{owner: fmt.Sprint(i), queue: "q", use: one})
	}
	all := u.owners.all(0)
	if len(all) != maxShares+1 || all[0].Name != "" || all[0].Held != 50 {
		t.Errorf("%d owners, the first %v", len(all), all[0])
	}
	for i := range maxShares + 50 {
		u.change(0, tally{owner: fmt.Sprint(i), queue: "q", use: one}, tally{})
	}
	for _, one := range u.owners.all(0) {
		if one.Held != 0 || one.Running != 0 {
			t.Fatalf("%v is left", one)
		}
	}
}

// TestStrangersAreNotCounted checks that a node without an announcement is not counted.
func TestStrangersAreNotCounted(t *testing.T) {
	m, _ := counting()
	ask(m, NodeShown{Outage: Closed, Status: &messages.NodeStatus{Record: &messages.NodeRecord{Id: "n1"}, Phase: "up"}})
	if c := ask(m, CountAll{}).(*Census); c.Machines[0] != 0 || c.Outages != [outages]int{} || len(c.Stocks) != 0 {
		t.Errorf("counted are %v, %v and %v", c.Machines, c.Outages, c.Stocks)
	}
}
