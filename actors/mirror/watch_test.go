package mirror

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the tests of watching: which watcher receives which event, and that invisible changes cause none.

const (
	first = uint64(1) << 32 // before the first event of epoch 1
	// soon is the reason of a job that no pass has examined yet.
	soon = ": Evaluating: the scheduler looks at the job next"
)

// audience is a Mirror with the events that its watchers received.
type audience struct {
	*Mirror
	told map[string][]*messages.Event
}

func newAudience() *audience {
	return &audience{mirrorOf(func(*actors.Constants) {}), map[string][]*messages.Event{}}
}

// says sends the Mirror a message from this sender.
func (a *audience) says(who string, m any) {
	a.Receive(&questionContext{who: who, message: m, told: func(to string, m any) {
		a.told[to] = append(a.told[to], m.(*messages.Event))
	}})
}

// heard returns the events that a watcher received after the last call: sequence numbers of this leader, and texts.
func (a *audience) heard(who string) string {
	var lines []string
	for _, e := range a.told[who] {
		line := fmt.Sprintf("%d %s", e.Seq-first, e.Text)
		if e.Synced {
			line = fmt.Sprintf("%d synced", e.Seq-first)
		}
		if err := e.Validate(); err != nil {
			line += " INVALID: " + err.Error()
		}
		lines = append(lines, line)
	}
	delete(a.told, who)
	return strings.Join(lines, "\n")
}

func (a *audience) hears(t *testing.T, who string, want ...string) {
	t.Helper()
	if got := a.heard(who); got != strings.Join(want, "\n") {
		t.Errorf("%s received:\n%s\nwant:\n%s", who, got, strings.Join(want, "\n"))
	}
}

func attemptOn(counter uint64, nodes ...string) func(*messages.JobStatus) {
	return func(s *messages.JobStatus) {
		s.Attempt = &messages.AttemptRecord{Job: s.Record.Id, Token: &messages.Token{Epoch: 1, Counter: counter}}
		for i, n := range nodes {
			s.Attempt.Places = append(s.Attempt.Places, &messages.Place{Rank: int32(i), Node: n})
		}
	}
}

func nodeOf(id, phase string, edit ...func(*messages.NodeStatus)) *messages.NodeStatus {
	s := &messages.NodeStatus{Phase: phase, Ledger: &messages.LedgerReport{}, Record: &messages.NodeRecord{
		Id: id, Announcement: &messages.Announcement{
			Total: &messages.Resources{MilliCpu: 64_000, MilliGpu: 8_000}, Gpus: []*messages.Gpu{{Id: "g0"}},
		},
	}}
	for _, e := range edit {
		e(s)
	}
	return s
}

func TestWatchTellsWhatPeopleSee(t *testing.T) {
	a := newAudience()
	a.says("all", &messages.Watch{Jobs: true, Nodes: true})
	job := func(phase string, edit ...func(*messages.JobStatus)) {
		a.says("", JobShown{statusOf("j", "alice", phase, edit...)})
	}
	node := func(phase string, edit ...func(*messages.NodeStatus)) {
		a.says("", NodeShown{Status: nodeOf("n3", phase, edit...)})
	}
	job("queued")
	job("queued") // sent again: no visible change
	job("running", attemptOn(1, "n1", "n1", "n2"))
	job("running", attemptOn(1, "n1", "n1", "n2"), func(s *messages.JobStatus) {
		s.Attempt.Places[0].Exit = &messages.Exit{} // one rank of many
	})
	for range 2 { // sent again: no visible change
		job("running", attemptOn(1, "n1", "n1", "n2"), func(s *messages.JobStatus) {
			s.Warned = &messages.Warning{Cause: messages.Cause_CAUSE_TIME_LIMIT, AtUnixMs: 1000, EndsUnixMs: 121_000}
		})
	}
	job("cancelled", overAt(5), func(s *messages.JobStatus) { s.Reason, s.Debts = "cancelled: enough", []string{"n1"} })
	job("cancelled", overAt(5), func(s *messages.JobStatus) { s.Reason = "cancelled: enough" })
	node("up")
	node("up", func(s *messages.NodeStatus) { s.Ledger.Version = 7 })                      // a heartbeat
	node("up", func(s *messages.NodeStatus) { s.Ledger.WithdrawnGpus = []string{"lost"} }) // the total of 8 excludes it
	node("up", func(s *messages.NodeStatus) { s.Ledger.WithdrawnGpus = []string{"g0", "lost"} })
	node("up", func(s *messages.NodeStatus) {
		s.Ledger.WithdrawnGpus, s.Closed = []string{"g0"}, "drained by ops: new fans"
	})
	node("dead", func(s *messages.NodeStatus) { s.Closed, s.Debts = "dead", []*messages.Token{{Epoch: 1}, {Epoch: 2}} })
	a.says("", NodeHidden{"n3"})
	a.says("", NodeHidden{"n3"}) // the node was already unknown
	a.hears(t, "all",
		"1 job j queued",
		"2 job j running on n1, n2",
		"3 job j running on n1, n2, warned: time limit in 2m0s",
		"4 job j cancelled: enough; the end is not confirmed by n1",
		"5 job j cancelled: enough",
		"6 node n3 up, with 64 CPUs and 8 GPUs",
		"7 node n3 up, with 64 CPUs and 7 GPUs (1 failed)",
		"8 node n3 up, drained by ops: new fans",
		"9 node n3 dead: 2 attempts may still be on it",
		"10 node n3 removed",
	)
	a.says("all", &messages.Unwatch{})
	a.says("all", &messages.Unwatch{})
	job("queued")
	a.hears(t, "all")
}

// TestMirrorExplainsWhatKeepsAJob checks that a job which waits outside the queue has a reason.
func TestMirrorExplainsWhatKeepsAJob(t *testing.T) {
	m := mirrorOf(func(*actors.Constants) {})
	for _, c := range []struct {
		phase, want string
		edit        func(*messages.JobStatus)
	}{
		{"queued", "j is queued: the scheduler looks at the job next", func(*messages.JobStatus) {}},
		{"held", "j is held by ops: later", func(s *messages.JobStatus) {
			s.Record.Hold = &messages.Deed{By: &messages.Principal{Name: "ops"}, Reason: "later"}
		}},
		{"queued", "j is queued: backs off after 2 failures (retry at 12:00:08Z)", func(s *messages.JobStatus) {
			s.Record.Failures, s.Record.NotBeforeUnixMs = 2, noon{}.WallMs()+8_000
		}},
		{"queued", "j is queued: backs off after 1 failure (retry at 12:00:01Z)", func(s *messages.JobStatus) {
			s.Record.Failures, s.Record.NotBeforeUnixMs = 1, noon{}.WallMs()+1_000
		}},
		{"queued", "j is queued: the scheduler looks at the job next", func(s *messages.JobStatus) {
			s.Record.NotBeforeUnixMs = noon{}.WallMs()
		}},
		{"queued", "j is queued: last attempt may run on n1 and 1 more node", func(s *messages.JobStatus) {
			s.Debts = []string{"n1", "n2"}
		}},
		{"running", "j is running", attemptOn(1, "n1")},
		{"failed", "j has failed: rank 3 exited with code 1", func(s *messages.JobStatus) {
			s.Record.State, s.Record.Outcome = messages.JobState_JOB_STATE_FAILED, "rank 3 exited with code 1"
		}},
	} {
		ask(m, JobShown{statusOf("j", "alice", c.phase, c.edit)})
		if got := ask(m, &messages.ExplainJob{Job: "j"}).(*messages.ExplainJobReply).Text; got != c.want {
			t.Errorf("explained as %q, and not %q", got, c.want)
		}
	}
}

func TestWatchTellsOnlyWhatWasAskedFor(t *testing.T) {
	a := newAudience()
	for who, q := range map[string]*messages.Watch{
		"jobs": {Jobs: true}, "nodes": {Nodes: true}, "alice": {Jobs: true, Owner: "alice"},
		"queue": {Jobs: true, Queue: "q-bob"},
		"label": {Jobs: true, Labels: []*messages.Label{{Key: "team", Value: "bob"}}},
		"ids":   {Jobs: true, Nodes: true, Ids: []string{"j2", "n1"}},
	} {
		a.says(who, q)
	}
	a.says("", JobShown{statusOf("j1", "alice", "queued")})
	a.says("", JobShown{statusOf("j2", "bob", "queued")})
	a.says("", NodeShown{Status: nodeOf("n1", "dead")})
	a.says("", NodeShown{Status: nodeOf("n2", "dead")})
	a.hears(t, "jobs", "1 job j1 queued", "2 job j2 queued")
	a.hears(t, "nodes", "3 node n1 dead", "4 node n2 dead")
	a.hears(t, "alice", "1 job j1 queued")
	a.hears(t, "queue", "2 job j2 queued")
	a.hears(t, "label", "2 job j2 queued")
	a.hears(t, "ids", "2 job j2 queued", "3 node n1 dead")
	a.says("jobs", &messages.Watch{Nodes: true}) // the last request counts
	a.says("", JobShown{statusOf("j1", "alice", "running")})
	a.says("", NodeShown{Status: nodeOf("n1", "up")})
	a.hears(t, "jobs", "6 node n1 up, with 64 CPUs and 8 GPUs")
}

func TestWatchBeginsWithWhatIsPresent(t *testing.T) {
	a := newAudience()
	for _, id := range []string{"j2", "j1"} {
		a.says("", JobShown{statusOf(id, "alice", "queued")})
	}
	a.says("", NodeShown{Status: nodeOf("n1", "up")})
	later := statusOf("j1", "alice", "queued", func(s *messages.JobStatus) { s.Record.Revision = 9 })
	a.says("", JobShown{later}) // no event, but part of the present state
	a.says("w", &messages.Watch{Jobs: true, Nodes: true, Present: true})
	if got := a.told["w"][1].Job; got.Record != later.Record {
		t.Errorf("the record that is present is of revision %d", got.Record.Revision)
	}
	a.hears(t, "w", "3 node n1 up, with 64 CPUs and 8 GPUs", "2 job j1 queued"+soon, "1 job j2 queued"+soon, "3 synced")
	a.says("one", &messages.Watch{Jobs: true, Present: true, Ids: []string{"j2", "nowhere", "j2"}})
	a.hears(t, "one", "1 job j2 queued"+soon, "3 synced")
	a.says("", JobShown{statusOf("j1", "alice", "running")})
	a.hears(t, "w", "4 job j1 running")
	a.hears(t, "one")
}

// TestWatchOfAnArray checks that a watch of an array covers the array and its present and future elements, and no other
// job.
func TestWatchOfAnArray(t *testing.T) {
	a := newAudience()
	element := func(id, array string) JobShown {
		return JobShown{statusOf(id, "alice", "running", func(s *messages.JobStatus) {
			s.Record.Spec.Element = &messages.Element{Array: array}
		})}
	}
	for _, id := range []string{"k", "k3", "k3f", "k4"} {
		a.says("", JobShown{statusOf(id, "alice", "running")})
	}
	a.says("", element("k3_0", "k3"))
	a.says("", element("k3f_0", "k3f"))
	a.says("w", &messages.Watch{Jobs: true, Present: true, Array: "k3"})
	a.hears(t, "w", "2 job k3 running", "5 job k3_0 running", "6 synced")
	a.says("", element("k3_1", "k3"))
	a.says("", element("k3f_1", "k3f"))
	a.says("", JobShown{statusOf("k3", "alice", "succeeded")})
	a.hears(t, "w", "7 job k3_1 running", "9 job k3 succeeded")
}

// TestWatchGoesOn checks that a watcher which reconnects receives the events that it missed. If these are no longer
// kept, it receives the present state.
func TestWatchGoesOn(t *testing.T) {
	a := newAudience()
	show := func(i int) { a.says("", JobShown{statusOf(fmt.Sprint("j", i%3), "alice", fmt.Sprint("phase", i))}) }
	for i := range 5 {
		show(i)
	}
	a.says("w", &messages.Watch{Jobs: true, After: first + 3})
	a.hears(t, "w", "4 job j0 phase3", "5 job j1 phase4", "5 synced")
	a.says("up to date", &messages.Watch{Jobs: true, After: first + 5, Present: true})
	a.hears(t, "up to date", "5 synced")
	for _, unknown := range []uint64{3, first + 6, 2*first + 3} { // of other leaders, or of none
		a.says("x", &messages.Watch{Jobs: true, After: unknown, Present: true})
		a.hears(t, "x", "4 job j0 phase3", "5 job j1 phase4", "3 job j2 phase2", "5 synced")
		a.says("y", &messages.Watch{Jobs: true, After: unknown})
		a.hears(t, "y", "5 synced")
	}
	for i := range 2 * mirrorEvents {
		show(5 + i)
	}
	a.says("z", &messages.Watch{Jobs: true, After: a.watch.seq - mirrorEvents})
	if n := len(a.told["z"]); n != mirrorEvents+1 {
		t.Errorf("%d events are kept", n)
	}
	for i, e := range a.told["z"][:mirrorEvents] {
		if e.Seq != a.watch.seq-mirrorEvents+1+uint64(i) {
			t.Fatalf("event %d is number %d", i, e.Seq)
		}
	}
	a.told["z"] = nil
	a.says("z", &messages.Watch{Jobs: true, After: a.watch.seq - mirrorEvents - 1})
	if n := len(a.told["z"]); n != 1 {
		t.Errorf("%d events after one that is no longer kept", n)
	}
}

// TestWatchIsTheList checks that a watcher which applies each event to the first state always has the state that a list
// shows.
func TestWatchIsTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAudience()
		seen := map[string]string{}
		var last uint64
		catchUp := func() {
			for _, e := range a.told["w"] {
				if !e.Synced {
					seen[e.Job.Record.Id] = e.Job.Phase
				}
				last = max(last, e.Seq)
			}
			a.told["w"] = nil
		}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				a.says("w", &messages.Watch{Jobs: true, Present: true, After: last})
			case 1:
				a.says("w", &messages.Unwatch{})
			default:
				id := fmt.Sprint("j", rapid.IntRange(0, 4).Draw(t, "job"))
				a.says("", JobShown{statusOf(id, "alice", fmt.Sprint("p", i/3))})
			}
			catchUp()
		}
		a.says("w", &messages.Watch{Jobs: true, Present: true, After: last})
		catchUp()
		var got, want []string
		for id, phase := range seen {
			got = append(got, id+" "+phase)
		}
		for _, j := range ask(a.Mirror, &messages.ListJobs{}).(*messages.ListJobsReply).Jobs {
			want = append(want, j.Record.Id+" "+j.Phase)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("watched %v, listed %v", got, want)
		}
	})
}

func BenchmarkMirrorShownTo100Watchers(b *testing.B) {
	m := mirrorOf(func(*actors.Constants) {})
	told := 0
	c := &questionContext{told: func(string, any) { told++ }}
	for i := range 100 {
		c.who, c.message = fmt.Sprint("w", i), &messages.Watch{Jobs: true}
		m.Receive(c)
	}
	var shown []JobShown
	for i := range 10_000 {
		shown = append(shown, JobShown{statusOf(fmt.Sprintf("j%07d", i), "alice", "queued")})
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		s := shown[i%len(shown)].Status
		c.message = JobShown{&messages.JobStatus{Record: s.Record, Phase: fmt.Sprint(i / len(shown))}}
		m.Receive(c)
		i++
	}
	if told != 100*i {
		b.Fatalf("%d events of %d", told, 100*i)
	}
}

// TestWatchTellsWhyItIsTriedAgain checks the event between two attempts. It names the cause of the last end, and why
// the retry has not started.
func TestWatchTellsWhyItIsTriedAgain(t *testing.T) {
	a := newAudience()
	a.says("w", &messages.Watch{Principal: &messages.Principal{Name: "x"}, Jobs: true})
	a.says("scheduler", JobShown{statusOf("j1", "alice", "running", attemptOn(1, "n1"))})
	a.says("scheduler", JobShown{statusOf("j1", "alice", "queued", func(s *messages.JobStatus) {
		s.Record.State = messages.JobState_JOB_STATE_QUEUED
		s.Record.Runs, s.Record.Failures, s.Record.NotBeforeUnixMs = 1, 1, noon{}.WallMs()+10_000
	})})
	told := a.told["w"]
	if got, want := told[len(told)-1].GetJob().GetReason(), "Backoff: 1 failure (retry at 12:00:10Z)"; got != want {
		t.Errorf("it waits because of %q, want %q", got, want)
	}
}

// TestBooks checks that ledger changes go to watchers that asked for them, and are not kept.
func TestBooks(t *testing.T) {
	a := newAudience()
	a.says("map", &messages.Watch{Nodes: true, Books: true})
	a.says("other", &messages.Watch{Nodes: true, Books: true, Ids: []string{"n2"}})
	a.says("words", &messages.Watch{Nodes: true})
	books := func(version uint64) *messages.NodeStatus {
		return nodeOf("n1", "up", func(s *messages.NodeStatus) { s.Ledger = &messages.LedgerReport{Version: version} })
	}
	a.says("", NodeShown{Status: books(1)})
	a.says("", NodeShown{Status: books(2)})
	a.says("", NodeShown{Status: books(2)}) // a heartbeat
	a.hears(t, "words", "1 node n1 up, with 64 CPUs and 8 GPUs")
	told := a.told["map"]
	if len(told) != 2 || told[1].Text != "" || told[1].Seq != told[0].Seq || told[1].Node.GetLedger().GetVersion() != 2 {
		t.Errorf("the map received %v", told)
	}
	a.hears(t, "other")
	a.says("late", &messages.Watch{Nodes: true, Books: true, After: first})
	a.hears(t, "late", "1 node n1 up, with 64 CPUs and 8 GPUs", "1 synced")
}
