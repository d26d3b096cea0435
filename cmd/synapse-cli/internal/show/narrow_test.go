package show

import (
	"io"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// narrowJobs returns a job that waits for a long reason, and a running job.
func narrowJobs(queue string) []*messages.JobStatus {
	of := func(id, phase string) *messages.JobStatus {
		return &messages.JobStatus{Phase: phase, Record: &messages.JobRecord{
			Id: id, Owner: &messages.Principal{Name: "alice"}, SubmittedUnixMs: 1,
			Spec: &messages.JobSpec{
				Name: "llama-70b", Queue: queue, Each: &messages.Resources{MilliGpu: 8000},
				Gang: &messages.GangSpec{ReplicasMin: 4},
			},
		}}
	}
	waits := of("j6quxrjzmfrub", messages.PhaseQueued)
	waits.Because(messages.WaitResources.Because("needs 32 GPUs, 0 of 32 free", "1 node drained"))
	return []*messages.JobStatus{waits, of("jtorvx4amspeg", messages.PhaseRunning)}
}

// TestNarrowLists checks that on a narrow terminal NAME and REASON remain and no line is too wide. A list of jobs
// shows the complete reason on several lines. An empty QUEUE column is removed first.
func TestNarrowLists(t *testing.T) {
	for _, columns := range []int{60, 80} {
		for _, queue := range []string{"", "research"} {
			for name, list := range map[string]func(io.Writer, Style) error{
				"get jobs": func(w io.Writer, s Style) error { return Jobs(w, s, narrowJobs(queue)) },
				"top":      func(w io.Writer, s Style) error { return Top(w, s, "here", nil, narrowJobs(queue), 0) },
			} {
				var b strings.Builder
				if err := list(&b, Style{Width: columns, NowMs: 90_000}); err != nil {
					t.Fatal(err)
				}
				text := b.String()
				for _, head := range []string{"JOB", "NAME", "PHASE", "REASON", "llama", "Resources:"} {
					if !strings.Contains(text, head) {
						t.Errorf("%s, %d columns: there is no %s:\n%s", name, columns, head, text)
					}
				}
				for line := range strings.Lines(text[strings.Index(text, "JOB"):]) {
					if width(strings.TrimSuffix(line, "\n")) > columns {
						t.Errorf("%s: wider than %d: %q", name, columns, line)
					}
				}
				if queue == "" && strings.Contains(text, "QUEUE") {
					t.Errorf("%s, %d columns: an empty column stays:\n%s", name, columns, text)
				}
				words := strings.Join(strings.Fields(text), " ")
				if name == "get jobs" && (!strings.Contains(words, "drained") || strings.Contains(words, "…")) {
					t.Errorf("%s, %d columns: the reason is cut:\n%s", name, columns, text)
				}
			}
		}
	}
}

// TestWideLists checks that with -o wide, and without a terminal, all columns are printed completely.
func TestWideLists(t *testing.T) {
	for _, s := range []Style{{Format: "wide", Width: 200, NowMs: 90_000}, {NowMs: 90_000}} {
		var b strings.Builder
		if err := Jobs(&b, s, narrowJobs("")); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"QUEUE", "AGE", "TASKS", "OWNER", "0 of 32 free, 1 node drained\n"} {
			if !strings.Contains(b.String(), part) {
				t.Errorf("there is no %q:\n%s", part, b.String())
			}
		}
	}
}
