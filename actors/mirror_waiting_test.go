package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests that every job that waits is shown with its reason,
// and that ten thousand of one shape cost one message.

// waitsFor is what the Scheduler tells of a group and of who joins it.
func waitsFor(group policy.GroupID, reason string, jobs ...string) WaitingShown {
	w := WaitingShown{Groups: []GroupReason{{group, reason}}}
	for _, j := range jobs {
		w.Jobs = append(w.Jobs, policy.Joined{Job: topology.JobID(j), Group: group})
	}
	return w
}

func shownReason(t *testing.T, m *Mirror, id string) string {
	t.Helper()
	got := ask(m, &messages.GetJob{Job: id}).(*messages.GetJobReply).Job.GetReason()
	for _, j := range ask(m, &messages.ListJobs{Limit: 1000}).(*messages.ListJobsReply).Jobs {
		if j.Record.Id == id && j.Reason != got {
			t.Errorf("%s is shown with %q and listed with %q", id, got, j.Reason)
		}
	}
	return got
}

func TestWaitingJobsShareAReason(t *testing.T) {
	a := newAudience()
	a.says("list", &messages.Watch{Jobs: true})
	a.says("eager", &messages.Watch{Jobs: true, Reasons: true})
	a.says("one", &messages.Watch{Jobs: true, Reasons: true, Ids: []string{"k"}})
	for _, id := range []string{"j1", "j2", "k"} {
		a.says("", JobShown{statusOf(id, "alice", "queued")})
	}
	a.says("", waitsFor(1, "needs 8 GPUs", "j1", "j2", "nobody"))
	a.says("", waitsFor(2, "needs 9 GPUs", "k"))
	began := []string{"1 job j1 queued", "2 job j2 queued", "3 job k queued",
		"4 job j1 queued: needs 8 GPUs", "5 job j2 queued: needs 8 GPUs", "6 job k queued: needs 9 GPUs"}
	a.hears(t, "list", began...)
	a.hears(t, "eager", began...)
	a.hears(t, "one", "3 job k queued", "6 job k queued: needs 9 GPUs")

	a.says("", waitsFor(1, "needs 8 GPUs; 3 are free"))
	a.says("", waitsFor(1, "needs 8 GPUs; 3 are free")) // nothing new
	a.hears(t, "list")
	a.hears(t, "one")
	a.hears(t, "eager", "6 2 jobs wait: needs 8 GPUs; 3 are free")
	for id, want := range map[string]string{"j1": "needs 8 GPUs; 3 are free", "j2": "needs 8 GPUs; 3 are free", "k": "needs 9 GPUs"} {
		if got := shownReason(t, a.Mirror, id); got != want {
			t.Errorf("%s waits because %q, want %q", id, got, want)
		}
	}
	aside := WaitingShown{Aside: "out of service: 1 dead (of 3 machines)"}
	a.says("", aside)
	a.hears(t, "one", "6 1 job waits: needs 9 GPUs · "+aside.Aside)
	a.hears(t, "eager", "6 2 jobs wait: needs 8 GPUs; 3 are free · "+aside.Aside, "6 1 job waits: needs 9 GPUs · "+aside.Aside)

	// Whoever comes back is told where they stand.
	a.says("late", &messages.Watch{Jobs: true, Reasons: true, After: first + 6})
	a.hears(t, "late", "6 2 jobs wait: needs 8 GPUs; 3 are free · "+aside.Aside, "6 1 job waits: needs 9 GPUs · "+aside.Aside, "6 synced")
	a.says("new", &messages.Watch{Jobs: true, Present: true, Ids: []string{"k"}})
	a.hears(t, "new", "6 job k queued: needs 9 GPUs · "+aside.Aside, "6 synced")
}

// A watcher is not flooded where every job has a shape of its own.
func TestManyReasonsAtOnceAreBounded(t *testing.T) {
	a := newAudience()
	a.says("eager", &messages.Watch{Jobs: true, Reasons: true})
	for i := range 2 * groupsAtOnce {
		id := fmt.Sprintf("j%04d", i)
		a.says("", JobShown{statusOf(id, "alice", "queued")})
		a.says("", waitsFor(policy.GroupID(i+1), "needs much", id))
	}
	a.says("one", &messages.Watch{Jobs: true, Reasons: true, Ids: []string{"j0500"}})
	a.told = map[string][]*messages.Event{}
	a.says("", WaitingShown{Aside: "out of service: 1 dead (of 3 machines)"})
	if n := len(a.told["eager"]); n != groupsAtOnce {
		t.Errorf("told of %d groups", n)
	}
	if n := len(a.told["one"]); n != 1 {
		t.Errorf("whoever watches one job is told %d times", n)
	}
	if got := shownReason(t, a.Mirror, "j0500"); got != "needs much · out of service: 1 dead (of 3 machines)" {
		t.Errorf("%q", got)
	}
}

// A job that goes on takes its reason with it, and the last of a group the group.
func TestWaitingEnds(t *testing.T) {
	m := newAudience()
	show := func(id, phase string) { m.says("", JobShown{statusOf(id, "alice", phase)}) }
	show("j1", "queued")
	show("j2", "queued")
	m.says("", waitsFor(7, "needs 8 GPUs", "j1", "j2"))
	m.says("", waitsFor(7, "needs 8 GPUs", "j1")) // told again: it is counted once
	show("j1", "reserving")
	if got := shownReason(t, m.Mirror, "j1"); got != "" {
		t.Errorf("it is tried and waits: %q", got)
	}
	if got := shownReason(t, m.Mirror, "j2"); got != "needs 8 GPUs" {
		t.Errorf("%q", got)
	}
	show("j2", "queued") // its record has changed; it waits as before
	if got := shownReason(t, m.Mirror, "j2"); got != "needs 8 GPUs" {
		t.Errorf("%q", got)
	}
	show("j2", "cancelled")
	if n := len(m.waiting.groups); n != 0 {
		t.Errorf("%d groups are kept of which nobody waits", n)
	}
	m.says("", waitsFor(8, "needs 1 GPU", "j2")) // it was cancelled meanwhile
	if n := len(m.waiting.groups); n != 0 || shownReason(t, m.Mirror, "j2") != "" {
		t.Errorf("%d groups, and a job that is over waits", n)
	}
	show("j1", "queued")
	m.says("", PlanningShown{"this leader has just taken over"})
	if got := shownReason(t, m.Mirror, "j1"); got != "this leader has just taken over" {
		t.Errorf("%q", got)
	}
}

// watchClock is set by hand; it notes what was asked of it.
type watchClock struct {
	now Instant
	set []time.Duration
}

func (c *watchClock) Now() Instant  { return c.now }
func (c *watchClock) WallMs() int64 { return int64(c.now) / 1e6 }
func (c *watchClock) After(d time.Duration, _ *actor.PID, message any) {
	if _, is := message.(tellAgain); is {
		c.set = append(c.set, d)
	}
}

// waitingScheduler leads one machine of 8 GPUs that are taken.
func waitingScheduler(clock *watchClock) (*Scheduler, func(m any) []WaitingShown) {
	p := leaderPorts()
	p.Clock = clock
	s := newScheduler(p).(*Scheduler)
	s.peers, s.self = somePeers, somePeers.scheduler
	s.states.become("loaded", "recovering")
	s.states.become("waited", "leading")
	s.fabric.Join(topology.Machine{ID: "n1", Total: topology.Resources{MilliGPU: 8000}}, topology.Capacity{})
	s.fabric.SetUsable("n1", "")
	return s, func(m any) []WaitingShown {
		var said []letter
		s.Receive(&overheard{message: m, said: &said})
		var shown []WaitingShown
		for _, l := range said {
			if w, is := l.message.(WaitingShown); is {
				shown = append(shown, w)
			}
		}
		return shown
	}
}

// Ten thousand jobs of one shape are told of once a second at most, in one message
// with one reason; one that joins them is told of at once.
func TestTenThousandWaitersCostOneMessage(t *testing.T) {
	clock := &watchClock{now: Instant(time.Hour)}
	s, tell := waitingScheduler(clock)
	join := func(i int) {
		id := topology.JobID(fmt.Sprint("j", i))
		s.jobs[id] = &livingJob{id: id, noted: true}
		s.onWaits(&overheard{said: &[]letter{}}, waits{&messages.JobRecord{Id: string(id), Arrival: uint64(i), Spec: oneGPU()}})
	}
	free := func(milliCPU int64) { s.fabric.SetFree("n1", topology.Capacity{MilliCPU: milliCPU}) }
	for i := range 10_000 {
		join(i)
	}
	shown := tell(planNow{})
	if len(shown) != 1 || len(shown[0].Groups) != 1 || len(shown[0].Jobs) != 10_000 {
		t.Fatalf("%d messages", len(shown))
	}
	const want = "needs 1 GPU; the whole cluster has 0 free of 8"
	if got := shown[0].Groups[0].Reason; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	clock.now = clock.now.Plus(400 * time.Millisecond)
	free(1)
	free(2)
	if shown := tell(planNow{}); len(shown) != 0 || len(clock.set) != 1 || clock.set[0] != 600*time.Millisecond {
		t.Errorf("%d messages, timers %v", len(shown), clock.set)
	}
	join(20_000)
	if shown := tell(planNow{}); len(shown) != 1 || len(shown[0].Groups) != 1 || len(shown[0].Jobs) != 1 || len(clock.set) != 1 {
		t.Errorf("one joined: %+v, timers %v", shown, clock.set)
	}
	s.fabric.Join(topology.Machine{ID: "n2", Total: topology.Resources{MilliGPU: 8000}}, topology.Capacity{})
	clock.now = clock.now.Plus(600 * time.Millisecond)
	shown = tell(tellAgain{})
	if len(shown) != 1 || len(shown[0].Groups) != 1 || len(shown[0].Jobs) != 0 || shown[0].Groups[0].Reason != "needs 1 GPU; the whole cluster has 0 free of 16" {
		t.Errorf("%+v", shown)
	}
	clock.now = clock.now.Plus(time.Hour)
	if shown := tell(planNow{}); len(shown) != 0 || len(clock.set) != 1 {
		t.Errorf("nothing has changed, and %d messages, timers %v", len(shown), clock.set)
	}
}
