package slurm_test

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/internal/slurm"
)

// TestReport checks the report of seff for a finished job, and the warning for a job that still runs.
func TestReport(t *testing.T) {
	e := &slurm.Entry{
		Job: "jabc", ArrayID: "N/A", Element: "N/A", User: "ann", State: "FAILED", Exit: 9, Nodes: 2, Tasks: 2, CPUs: 16,
		GPUs: 16, Memory: 8 << 30, Peak: 3 << 30, StartMs: 1, ElapsedMs: 90_000,
	}
	text := e.Report("lab")
	for _, want := range []string{
		"Cluster: lab\nUser/Group: ann/ann\nState: FAILED (exit code 9)\nNodes: 2\n" +
			"Cores: 16 (8 per node)\nGPUs: 16 (8 per node)\n",
		"CPU Utilized: not measured\nCPU Efficiency: not measured, of 00:24:00 core-walltime\nGPU-walltime: 00:24:00\n",
		"Job Wall-clock time: 00:01:30\nMemory Utilized: 3.00 GB (largest task)\n" +
			"Memory Efficiency: 75.00% of 4.00 GB (per task)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks\n%s", text, want)
		}
	}
	e.CPUMs = 600_000
	if want := "CPU Utilized: 00:10:00\nCPU Efficiency: 41.66% of 00:24:00 core-walltime\n"; !strings.Contains(
		e.Report("lab"), want) {
		t.Errorf("%s\nlacks\n%s", e.Report("lab"), want)
	}
	if e.ElapsedMs = 0; !strings.Contains(e.Report(""), "CPU Efficiency: not measured, of 00:00:00") {
		t.Error(e.Report(""))
	}
	if e.State, e.Peak = "RUNNING", 0; !strings.Contains(e.Report(""), "Memory Utilized: not measured\nWARNING: ") {
		t.Error(e.Report(""))
	}
}
