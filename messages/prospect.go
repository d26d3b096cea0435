package messages

import (
	"strconv"
	"strings"
)

// This file has the texts for the start time of a job.

// Infeasible is the first word of the reason of a job that does not fit on the known nodes even if all are idle.
const Infeasible = "Infeasible: "

// Words describes the start of a job, and the jobs ahead of it, for a reader at nowMs.
func (x *Prospect) Words(nowMs int64) string {
	text := x.Starts(nowMs)
	if work := x.Queued(); work != "" {
		text += " · " + work
	}
	return text
}

// Starts describes the start of a job for a reader at nowMs.
func (x *Prospect) Starts(nowMs int64) string {
	switch x.GetBasis() {
	case Basis_BASIS_LIMITS:
		text := x.expected(nowMs, "")
		if x.LatestUnixMs <= nowMs {
			return text + ", guaranteed by " + Moment(WholeMinute(x.LatestUnixMs), nowMs) + " (passed)"
		}
		text += ", guaranteed by " + Moment(WholeMinute(x.LatestUnixMs), nowMs) + " (time limits) unless a node is lost"
		if x.OnLoan {
			text += " or another queue takes back what this queue borrows"
		}
		return text
	case Basis_BASIS_LEARNED:
		text := x.expected(nowMs, "default estimate")
		if !x.Unlearned {
			text = x.expected(nowMs, "estimate")
			if x.LikelyUnixMs > 0 {
				text += ", 9 of 10 similar jobs start by " + Moment(x.LikelyUnixMs, nowMs)
			}
		}
		if x.Why != "" {
			text += "; no guarantee: " + x.Why
		}
		return text
	}
	switch why := x.GetWhy(); {
	case why == "":
		return "unknown"
	case strings.HasPrefix(why, Infeasible):
		return why
	default:
		return "unknown: " + why
	}
}

// expected describes the planned start, how far away it is or its delay, and its basis. It never reports that a job
// starts now.
func (x *Prospect) expected(nowMs int64, basis string) string {
	var about []string
	if late := x.OverdueMs(nowMs); late > 0 {
		about = append(about, "overdue "+Span(late))
	} else if left := x.AtUnixMs - nowMs; left >= 1000 {
		about = append(about, "in "+Span(left))
	}
	if basis != "" {
		about = append(about, basis)
	}
	text := "expected " + Moment(x.AtUnixMs, nowMs)
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	return text
}

// overdueFrom is the delay in milliseconds from which a start is overdue. It allows for different clocks and for the
// time of the reply on the network.
const overdueFrom = 10_000

// OverdueMs returns the time since the expected start. It returns 0 if the start is not overdue or not known.
func (x *Prospect) OverdueMs(nowMs int64) int64 {
	if late := nowMs - x.GetAtUnixMs(); x.GetAtUnixMs() > 0 && late >= overdueFrom {
		return late
	}
	return 0
}

// Queued returns how many jobs have their turn before a job without a start time, and how much work that is. It is
// empty if none has.
func (x *Prospect) Queued() string {
	if x.GetAhead() == 0 {
		return ""
	}
	text := strconv.Itoa(int(x.Ahead)) + " jobs ahead"
	if x.Ahead == 1 {
		text = "1 job ahead"
	}
	var work []string
	if x.AheadGpuSeconds > 0 {
		hours := (x.AheadGpuSeconds + 3599) / 3600
		work = append(work, thousands(hours)+" GPU-hours")
		if hours == 1 {
			work[0] = "1 GPU-hour"
		}
	}
	if x.AheadMs > 0 {
		work = append(work, Span(x.AheadMs)+" at today's pace")
	}
	if len(work) > 0 {
		text += " (" + strings.Join(work, ", ") + ")"
	}
	return text
}

// Reserved returns the nodes that are reserved for a job, and until when; empty: none is. If there are more nodes than
// most, it names some of them.
func (x *Prospect) Reserved(most int, nowMs int64) string {
	names := x.GetKept()
	if len(names) == 0 {
		return ""
	}
	until := " until it starts"
	switch {
	case x.KeptUntilUnixMs > 0:
		until = " until " + Moment(x.KeptUntilUnixMs, nowMs)
	case x.Basis == Basis_BASIS_LEARNED: // it is planned again whenever something changes
		until = " as planned now"
	}
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text + " for this job" + until
}

// thousands formats a number with separators: 1,200.
func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return thousands(n/1000) + "," + strconv.FormatInt(1000+n%1000, 10)[1:]
}
