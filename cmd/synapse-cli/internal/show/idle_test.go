package show

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestIdleJobs checks the list of idle jobs, and the idle GPU-hours of each owner in top.
func TestIdleJobs(t *testing.T) {
	var jobs []*messages.JobStatus
	for i, idleMs := range []int64{0, 3_600_000, 7_200_000, 60_000} {
		j := narrowJobs("research")[1] // 32 GPUs
		j.Record.Owner = &messages.Principal{Name: []string{"ann", "bob", "ann", "eve"}[i]}
		j.Use = &messages.Use{Tasks: 4, IdleMs: idleMs}
		jobs = append(jobs, j)
	}
	if got := idleWords(jobs); got != ", 2 idle for 96.0 GPU-hours: ann 64.0, bob 32.0" {
		t.Errorf("top says %q", got)
	}
	if got := idleWords(jobs[:1]); got != "" {
		t.Errorf("without idle jobs top says %q", got)
	}
	var out strings.Builder
	if err := IdleJobs(&out, Style{}, jobs[1:2]); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	if !strings.Contains(text, "GPUS CPU IDLE GPU-HOURS") || !strings.Contains(text, "32 0.0 1h 32.0") {
		t.Error(out.String())
	}
}
