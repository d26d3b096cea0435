package show

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestUse checks `top jobs`, `describe` and -o json for a job whose use is measured, and for one whose use is not.
func TestUse(t *testing.T) {
	known, unknown := narrowJobs("research")[1], narrowJobs("research")[1]
	known.Use = &messages.Use{Tasks: 8, Processes: 9, CpuMs: 3_600_000, MilliCpu: 12_345, MemoryBytes: 3 << 30,
		PeakMemoryBytes: 1 << 30, Gpus: 2, GpuPercent: 120, GpuHourPercent: 90, GpuMemoryBytes: 8 << 30, IdleMs: 0}
	var out strings.Builder
	if err := TopJobs(&out, Style{}, []*messages.JobStatus{known}); err != nil {
		t.Fatal(err)
	}
	head, row, _ := strings.Cut(out.String(), "\n")
	for _, want := range []string{"12", "3Gi", "60%"} {
		if !strings.Contains(row, want) {
			t.Errorf("%s\nlacks %s", row, want)
		}
	}
	if !strings.Contains(strings.Join(strings.Fields(head), " "), "GPUS CPU MEMORY GPU%") {
		t.Error(head)
	}
	out.Reset()
	if err := DescribeJob(&out, Style{}, known, nil); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"CPU use: 12 cores, 1h of CPU time since the start", "Memory use: 3Gi, highest peak of a task 1Gi",
		"GPU use: 60%, 45% in the last hour, 8Gi of GPU memory",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %s", out.String(), want)
		}
	}
	if strings.Contains(text, "Idle") || strings.Contains(text, "network") {
		t.Error(text)
	}
	known.Use.Gpus, known.Use.IdleMs = 0, 60_000
	out.Reset()
	if err := DescribeJob(&out, Style{}, known, nil); err != nil || !strings.Contains(out.String(), "not measured") {
		t.Error(out.String(), err)
	}
	object, _ := json.Marshal(jobObject(unknown, 0))
	if strings.Contains(string(object), `"use"`) {
		t.Errorf("%s", object)
	}
	object, _ = json.Marshal(jobObject(known, 0))
	if s := string(object); !strings.Contains(s, `"idleSeconds":60`) || strings.Contains(s, "gpuPercent") {
		t.Errorf("%s", object)
	}
}
