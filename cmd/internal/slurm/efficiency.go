package slurm

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// This file owns the fields of sprio and the report of seff.

// PriorityFormat and PriorityLong are the formats of sprio and of sprio --long.
const (
	PriorityFormat = "%.15i %.9r %.10Y"
	PriorityLong   = "%.15i %.9r %.8u %.10Y %.19V %.10o"
)

// PriorityFields returns the fields of sprio. A priority here has no factors: it is the number of the job.
func PriorityFields() []Field[*Entry] {
	return []Field[*Entry]{
		{'i', []string{"JobArrayID"}, "JOBID", func(e *Entry) string { return e.ID }},
		{'r', []string{"Partition"}, "PARTITION", func(e *Entry) string { return cmp.Or(e.Partition, "(none)") }},
		{'u', []string{"UserName"}, "USER", func(e *Entry) string { return e.User }},
		{'Y', []string{"Priority"}, "PRIORITY", func(e *Entry) string { return sbatch.Decimal(int64(e.Priority)) }},
		{'V', []string{"SubmitTime"}, "SUBMIT_TIME", func(e *Entry) string { return moment(e.SubmitMs, "N/A") }},
		{'o', []string{"Account"}, "ACCOUNT", func(e *Entry) string { return cmp.Or(e.Account, "(null)") }},
	}
}

// Report returns the lines of seff for a job: what the job requested and what it used.
func (e *Entry) Report(cluster string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Job ID: %s", e.raw())
	if e.ArrayID != "N/A" {
		line("Array Job ID: %s_%s", e.base(), e.Element)
	}
	line("Cluster: %s", cmp.Or(cluster, "local"))
	line("User/Group: %s/%s", e.User, e.User)
	line("State: %s (exit code %d)", e.State, e.Exit)
	line("Nodes: %d", e.given(e.Nodes))
	line("Cores: %s", quotient(e.given(e.CPUs), e.given(e.Nodes), "per node"))
	line("GPUs: %s", quotient(e.given(e.GPUs), e.given(e.Nodes), "per node"))
	cores := e.given(e.CPUs) * e.ElapsedMs
	if e.CPUMs == 0 || cores == 0 {
		line("CPU Utilized: not measured")
		line("CPU Efficiency: not measured, of %s core-walltime", wide(cores))
	} else {
		line("CPU Utilized: %s", wide(e.CPUMs))
		line("CPU Efficiency: %s%% of %s core-walltime", percent(e.CPUMs, cores), wide(cores))
	}
	line("GPU-walltime: %s", wide(e.given(e.GPUs)*e.ElapsedMs))
	line("Job Wall-clock time: %s", wide(e.ElapsedMs))
	each := e.Memory / max(e.Tasks, 1)
	switch {
	case e.Peak == 0:
		line("Memory Utilized: not measured")
	case each == 0:
		line("Memory Utilized: %s (largest task)", gigabytes(e.Peak))
	default:
		line("Memory Utilized: %s (largest task)", gigabytes(e.Peak))
		line("Memory Efficiency: %s%% of %s (per task)", percent(e.Peak, each), gigabytes(each))
	}
	if !ended(e.State) {
		line("WARNING: Efficiency statistics may be misleading for jobs that have not ended.")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// ended reports whether a state is final.
func ended(state string) bool {
	switch state {
	case "PENDING", "RUNNING", "CONFIGURING", "COMPLETING":
		return false
	}
	return true
}

func quotient(n, by int64, unit string) string {
	if by > 1 && n%by == 0 {
		return fmt.Sprintf("%d (%d %s)", n, n/by, unit)
	}
	return sbatch.Decimal(n)
}

// percent formats a part of a whole with two digits after the point.
func percent(part, whole int64) string {
	hundredths := part / (whole/10_000 + 1)
	if whole < 1<<40 {
		hundredths = part * 10_000 / whole
	}
	return fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100)
}

func gigabytes(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d.%02d MB", n>>20, n%(1<<20)*100>>20)
	}
	return fmt.Sprintf("%d.%02d GB", n>>30, n%(1<<30)*100>>30)
}
