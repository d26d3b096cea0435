package show

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestTop checks the order of the jobs: the largest running ones first, then the waiting ones in order. Hidden jobs
// are counted, and the GPUs of the nodes add up.
func TestTop(t *testing.T) {
	node := func(phase, closed string, total, free int64, withdrawn ...string) *messages.NodeStatus {
		return &messages.NodeStatus{
			Phase: phase, Closed: closed, Record: &messages.NodeRecord{
				Announcement: &messages.Announcement{Total: &messages.Resources{MilliGpu: total}},
			},
			Ledger: &messages.LedgerReport{Free: &messages.Resources{MilliGpu: free}, WithdrawnGpus: withdrawn},
		}
	}
	of := func(id, phase string, gpus int64, priority int32, arrival uint64) *messages.JobStatus {
		return &messages.JobStatus{Phase: phase, Record: &messages.JobRecord{
			Id: id, Arrival: arrival, SubmittedUnixMs: 1, Spec: &messages.JobSpec{
				Name: "x", Priority: priority, Gang: &messages.GangSpec{ReplicasMin: 1},
				Each: &messages.Resources{MilliGpu: gpus},
			},
		}}
	}
	nodes := []*messages.NodeStatus{
		node("up", "", 8000, 2000), node("up", "drained", 8000, 8000), node("up", "", 8000, 0, "a", "b"),
		node("dead", "", 8000, 8000),
	}
	jobs := []*messages.JobStatus{
		of("late", "queued", 8000, 0, 9), of("small", "running", 1000, 0, 1), of("urgent", "queued", 4000, 5, 8),
		of("big", "running", 8000, 0, 7), of("early", "held", 8000, 0, 2),
	}
	var page strings.Builder
	if err := Top(&page, Style{NowMs: 1000}, "head:9000", nodes, jobs, 0); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(page.String()), "\n")
	for i, want := range []string{
		"head:9000 at ", "nodes     3 up, 1 unschedulable, 1 unreachable",
		"gpus      [|||||||||||               ", "jobs      2 hold resources, 3 wait for 20 GPUs", "", "JOB ",
		"big ", "small ", "urgent ", "early ", "late ",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d is not %q:\n%s", i, want, page.String())
		}
	}
	if want := "12 of 32 in use, 2 free, 2 broken"; !strings.Contains(lines[2], want) {
		t.Errorf("%q has not %q", lines[2], want)
	}
	if n := strings.Index(page.String(), "JOB "); strings.Count(page.String()[:n], "\n") != TopHead {
		t.Errorf("the head has not %d lines", TopHead)
	}
	page.Reset()
	if err := Top(&page, Style{}, "x", nodes, jobs, 3); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(strings.Count(page.String(), "\n")); got != fmt.Sprint(TopHead+1+3) ||
		!strings.HasSuffix(page.String(), "and 3 more\n") {
		t.Errorf("three lines of jobs:\n%s", page.String())
	}
}
