package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
)

// This file formats single values: amounts, ages, states.

// age formats a duration for a table: 5s, 3m, 2h10m, 4d.
func age(fromMs, nowMs int64) string {
	if fromMs == 0 {
		return "-"
	}
	return messages.Span(max(nowMs-fromMs, 0))
}

// stamp formats a time in UTC.
func stamp(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

func milli(n int64) string { return jobfile.FormatMilli(n) }

// size formats an amount of memory for a table with at most three digits. It may be rounded.
func size(n int64) string {
	const units = "KMGTP"
	if n < 1<<10 {
		return strconv.FormatInt(n, 10)
	}
	value, unit := float64(n), -1
	for value >= 1000 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	s := strconv.FormatFloat(value, 'f', 1, 64)
	if value >= 100 {
		s = strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strings.TrimSuffix(s, ".0") + units[unit:unit+1] + "i"
}

// Request formats what a submit asks for: a gang, or for an array the gang of each element.
func Request(spec *messages.JobSpec) string {
	if a := spec.GetArray(); a != nil {
		return counted(a.Len(), "element") + ", each with " + Shape(spec)
	}
	return Shape(spec)
}

// Shape formats a gang: 8 tasks of 8 GPUs, 64 CPUs, 512Gi.
func Shape(spec *messages.JobSpec) string {
	if t := spec.GetGang().GetTotal(); t != nil {
		split := ", whole nodes"
		if spec.GetGang().GetSplit() == messages.Split_SPLIT_ANY || t.GetMilliGpu() == 0 {
			split = ", on any free resources"
		}
		return amount(t, spec.GetGpuType()) + " in total" + split
	}
	n := spec.GetGang().GetReplicasMin()
	if spec.GetGang().GetApart() && n > 1 {
		return fmt.Sprintf("%d nodes × %s, 1 task per node", n, amount(spec.GetEach(), spec.GetGpuType()))
	}
	if n == 1 {
		return "1 task of " + amount(spec.GetEach(), spec.GetGpuType())
	}
	return fmt.Sprintf("%d tasks of %s each", n, amount(spec.GetEach(), spec.GetGpuType()))
}

func amount(r *messages.Resources, gpuType string) string {
	var parts []string
	if n := r.GetMilliGpu(); n != 0 {
		parts = append(parts, plural(n, strings.TrimSpace(gpuType+" GPU")))
	}
	if n := r.GetMilliCpu(); n != 0 {
		parts = append(parts, plural(n, "CPU"))
	}
	if n := r.GetMemoryBytes(); n != 0 {
		parts = append(parts, size(n))
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func plural(thousandths int64, what string) string {
	s := milli(thousandths) + " " + what
	if thousandths != 1000 {
		s += "s"
	}
	return s
}

func phaseColour(phase string) string {
	switch phase {
	case "running", "succeeded", "up":
		return green
	case "failed", "timed-out", "dead", "unknown":
		return red
	case "cancelled", "stopping", "settling":
		return ""
	}
	return yellow
}

// ranks formats many ranks briefly: 0-7, 9.
func ranks(list []int32) string { return strings.Join(messages.Spans(list), ",") }

// Counted formats a number of things: 1 rack, 2 racks.
func Counted(n int, noun string) string { return counted(n, noun) }

// counted formats a number of things: 1 restart, 2 restarts.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
