package mirror

import (
	"fmt"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of events: each visible change causes one event for each watcher that asked for it.

// TestEachChangeIsNews changes one property of a job or a node at a time.
func TestEachChangeIsNews(t *testing.T) {
	deed := &messages.Deed{By: &messages.Principal{Name: "op"}}
	jobs := map[string]func(*messages.JobStatus){
		"phase":  func(s *messages.JobStatus) { s.Phase = "stopping" },
		"reason": func(s *messages.JobStatus) { s.Reason = "x" },
		"state":  func(s *messages.JobStatus) { s.Record.State = messages.JobState_JOB_STATE_FAILED },
		"hold":   func(s *messages.JobStatus) { s.Record.Hold = deed },
		"cancel": func(s *messages.JobStatus) { s.Record.Cancel = deed },
		"cause of a warning": func(s *messages.JobStatus) {
			s.Warned = &messages.Warning{Cause: messages.Cause_CAUSE_DRAINED, EndsUnixMs: 5}
		},
		"end of a warning": func(s *messages.JobStatus) {
			s.Warned = &messages.Warning{Cause: messages.Cause_CAUSE_TIME_LIMIT, EndsUnixMs: 6}
		},
		"attempt": attemptOn(2, "n1"), "end": func(s *messages.JobStatus) { s.Attempt.End = &messages.End{} },
		"debts": func(s *messages.JobStatus) { s.Debts = []string{"n2"} },
	}
	for what, change := range jobs {
		a := newAudience()
		job := func(edit ...func(*messages.JobStatus)) JobShown {
			edit = append([]func(*messages.JobStatus){attemptOn(1, "n1"), func(s *messages.JobStatus) {
				s.Warned = &messages.Warning{Cause: messages.Cause_CAUSE_TIME_LIMIT, EndsUnixMs: 5}
			}}, edit...)
			return JobShown{statusOf("j", "ann", "running", edit...)}
		}
		a.says("", job())
		a.says("w", &messages.Watch{Jobs: true})
		for i, one := range []JobShown{job(), job(change), job(change), job()} {
			a.says("", one)
			if n := len(a.told["w"]); n != []int{0, 1, 1, 2}[i] {
				t.Errorf("%s, step %d: %d events", what, i, n)
			}
		}
	}
	nodes := map[string]func(*messages.NodeStatus){
		"phase":  func(s *messages.NodeStatus) { s.Phase = "dead" },
		"closed": func(s *messages.NodeStatus) { s.Closed = "drained" },
		"closes": func(s *messages.NodeStatus) { s.Record.ClosesUnixMs, s.Record.Closing = 9, deed },
		"total":  func(s *messages.NodeStatus) { s.Record.Announcement.Total.MilliCpu++ },
		"device": func(s *messages.NodeStatus) { s.Ledger.WithdrawnGpus = []string{"g0"} },
		"debts":  func(s *messages.NodeStatus) { s.Debts = []*messages.Token{{Epoch: 1, Counter: 4}} },
	}
	for what, change := range nodes {
		a := newAudience()
		a.says("", NodeShown{Status: nodeOf("n", "up")})
		a.says("w", &messages.Watch{Nodes: true})
		for i, one := range []*messages.NodeStatus{
			nodeOf("n", "up"), nodeOf("n", "up", change), nodeOf("n", "up", change), nodeOf("n", "up"),
		} {
			a.says("", NodeShown{Status: one})
			if n := len(a.told["w"]); n != []int{0, 1, 1, 2}[i] {
				t.Errorf("%s of a machine, step %d: %d events", what, i, n)
			}
		}
	}
}

// TestLimitsAreNews checks events about limits. Each job of a burst gets an event when the burst starts or stops
// waiting for a limit, for one domain, or for shorter jobs. Other changes of the burst cause no event.
func TestLimitsAreNews(t *testing.T) {
	quiet := policy.InLine{Burst: 7, Why: policy.Withholdings}
	over, near := quiet, quiet
	over.Over = "nlp has no more"
	near.Why, near.Within, near.Until = policy.Locality, "rack", 5*minute
	long, other, later := quiet, over, near
	long.Why, other.Over, later.Until = policy.Headroom, "nlp has nothing", 6*minute
	a := newAudience()
	queued(a, "j", "k")
	a.says("", JobShown{statusOf("r", "ann", "running")})
	a.says("w", &messages.Watch{Jobs: true})
	for i, c := range []struct {
		line policy.InLine
		told int
	}{
		{quiet, 0}, {long, 2}, {over, 2}, {other, 0}, {near, 2}, {later, 0}, {long, 2}, {near, 2}, {quiet, 2}, {quiet, 0},
	} {
		s := StartsShown{}
		s.Lines = []policy.InLine{c.line}
		a.says("", s)
		if n := len(a.told["w"]); n != c.told {
			t.Errorf("step %d: %d events, want %d", i, n, c.told)
		}
		a.told = map[string][]*messages.Event{}
	}
}

// TestBooksOfMachinesOnly checks that a watcher gets ledger changes only if it watches nodes.
func TestBooksOfMachinesOnly(t *testing.T) {
	a := newAudience()
	a.says("jobs", &messages.Watch{Jobs: true, Books: true})
	for version := range uint64(3) {
		a.says("", NodeShown{Status: nodeOf("n1", "up", func(s *messages.NodeStatus) { s.Ledger.Version = version })})
	}
	a.hears(t, "jobs")
}

// TestMovedIsToldOnce checks that the Scheduler gets one notification of changed GPU time until it takes the sums.
func TestMovedIsToldOnce(t *testing.T) {
	m, _ := counting()
	told := 0
	say := func(message any) {
		m.Receive(&countingContext{questionContext{who: "tells", message: message, told: func(string, any) {}}, &told})
	}
	class := goodput.Closed
	change := func() {
		class = goodput.Closed + goodput.Broken - class
		free := func(s *messages.NodeStatus) { s.Ledger.Free = &messages.Resources{MilliGpu: 8000} }
		say(NodeShown{Status: nodeOf("n1", "up", free), Free: class})
	}
	for i, want := range []int{1, 1, 1, 2} {
		if change(); told != want {
			t.Errorf("after change %d there are %d notifications, want %d", i, told, want)
		}
		if i == 2 {
			say(TakeGPUTime{})
		}
	}
	say(TakeGPUTime{})
	if say(PlanningShown{}); told != 2 {
		t.Errorf("nothing has changed, but there are %d notifications", told)
	}
}

// countingContext counts the notifications to the Scheduler.
type countingContext struct {
	questionContext
	moved *int
}

func (c *countingContext) Send(to *actor.PID, m any) {
	if m == (GPUTimeMoved{}) {
		*c.moved++
	}
	c.questionContext.Send(to, m)
}

// TestPagesOfMachinesHaveAWeight checks that pages of nodes are bounded in size like pages of jobs.
func TestPagesOfMachinesHaveAWeight(t *testing.T) {
	m := mirrorOf(func(*actors.Constants) {})
	for i, weight := range []int{pageBytes / 2, pageBytes / 2, 10, 2 * pageBytes, 20} {
		ask(m, NodeShown{Status: nodeOf(fmt.Sprint("n", i), "up", func(s *messages.NodeStatus) {
			s.Closed = strings.Repeat("x", weight)
		})})
	}
	var pages []string
	for q := (&messages.ListNodes{}); len(pages) == 0 || q.After != ""; {
		r := ask(m, q).(*messages.ListNodesReply)
		page := ""
		for _, n := range r.Nodes {
			page += n.Record.Id
		}
		pages, q.After = append(pages, page), r.Next
	}
	if got := fmt.Sprint(pages); got != "[n0 n1n2 n3 n4]" {
		t.Error(got)
	}
}

// TestGoneMachineFreesNothing checks that the end of a job on a removed node frees no capacity. A waiting job gets no
// estimate that depends on it.
func TestGoneMachineFreesNothing(t *testing.T) {
	m, _ := counting()
	all := topology.Resources{MilliGPU: 8000}
	holder := [][]topology.Holder{{{Job: "a", Amount: all, EndsBy: 30 * minute}}}
	seen := topology.Seen{ID: "n1", Machine: &topology.Machine{ID: "n1", Place: []string{"r1"}, Total: all}}
	ask(m, RoomsShown{Changes: topology.Changes{Machines: []topology.Seen{seen}}, Holders: holder})
	_, on := m.Room()
	if len(on("n1")) != 1 {
		t.Fatalf("on the machine are %v", on("n1"))
	}
	gone := topology.Changes{Machines: []topology.Seen{{ID: "n1"}}}
	if ask(m, RoomsShown{Changes: gone, Holders: holder}); len(on("n1")) != 0 {
		t.Errorf("on a machine that is no more are %v", on("n1"))
	}
}

// TestSupposedPatience checks the answer for a spec that was not submitted. A spec with a wait for its preferred level
// reports the wait. A spec without one reports that it fits.
func TestSupposedPatience(t *testing.T) {
	m, _ := counting()
	for i := range 2 {
		id := topology.NodeID(fmt.Sprint("n", i))
		seen := topology.Seen{ID: id, Free: topology.Capacity{WholeGPUs: 8, MilliCPU: 8000, MemoryBytes: 1 << 40}}
		seen.Machine = &topology.Machine{ID: id, Place: []string{fmt.Sprint("r", i)}, Total: topology.Resources{
			MilliGPU: 8000, MilliCPU: 8000, MemoryBytes: 1 << 40,
		}}
		ask(m, RoomsShown{Changes: topology.Changes{Machines: []topology.Seen{seen}}, Holders: [][]topology.Holder{nil}})
	}
	for patience, room := range map[int64]bool{0: true, 1: false} {
		spec := &messages.JobSpec{
			Name: "x", Gang: &messages.GangSpec{ReplicasMin: 2, ReplicasMax: 2}, Each: &messages.Resources{MilliGpu: 8000},
			Topology: &messages.TopologySpec{Preferred: "rack", PatienceMs: patience},
		}
		text := ask(m, &messages.ExplainJob{Spec: spec}).(*messages.ExplainJobReply).Text
		waits := strings.HasPrefix(text, "would wait: prefers 1 rack") && strings.Contains(text, "without topology patience")
		if (text == "would start now") != room || waits == room {
			t.Errorf("with a topology wait of %d the answer is %q", patience, text)
		}
	}
}
