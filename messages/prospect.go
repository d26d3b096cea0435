package messages

import (
	"strconv"
	"strings"
)

// This file has the texts for the start time of a job.

// Infeasible is the first word of the reason of a job that does not fit on the known nodes even if all are idle.
const Infeasible = "Infeasible: "

// Words describes the start of a job for a reader at nowMs. moment formats a time, and span formats a duration in
// milliseconds.
func (x *Prospect) Words(nowMs int64, moment, span func(ms int64) string) string {
	switch x.GetBasis() {
	case Basis_BASIS_LIMITS:
		text := x.expected(nowMs, moment, span)
		if x.LatestUnixMs <= nowMs {
			return text + ", limits: its latest start was " + moment(x.LatestUnixMs)
		}
		text += ", limits: no later than " + moment(x.LatestUnixMs) + " unless a machine is lost"
		if x.OnLoan {
			text += " or another queue takes back what this one borrows"
		}
		return text
	case Basis_BASIS_LEARNED:
		text := x.expected(nowMs, moment, span)
		if !x.Unlearned {
			text += ", learned"
			if x.LikelyUnixMs > 0 {
				text += ": by " + moment(x.LikelyUnixMs) + " in 9 of 10"
			}
		}
		if x.Why != "" {
			text += "; no latest time can be given: " + x.Why
		}
		return text
	}
	if strings.HasPrefix(x.GetWhy(), Infeasible) {
		return x.Why
	}
	text := "no time can be given"
	if x.GetWhy() != "" {
		text += ": " + x.Why
	}
	return text + x.queueWords(span)
}

// expected describes the planned start and its delay. It never reports that a job starts now.
func (x *Prospect) expected(nowMs int64, moment, span func(ms int64) string) string {
	if late := x.OverdueMs(nowMs); late > 0 {
		return "expected " + moment(x.AtUnixMs) + ", overdue " + span(late)
	}
	return "expected ~" + moment(x.AtUnixMs)
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

// queueWords describes the queue ahead of a job without an expected start.
func (x *Prospect) queueWords(span func(ms int64) string) string {
	if x.GetAhead() == 0 {
		return ""
	}
	text := " · " + strconv.Itoa(int(x.Ahead)) + " ahead"
	if x.AheadGpuSeconds > 0 {
		hours := (x.AheadGpuSeconds + 3599) / 3600
		text += ", " + thousands(hours) + " GPU-hour"
		if hours > 1 {
			text += "s"
		}
	}
	if x.AheadMs > 0 {
		text += ", " + span(x.AheadMs) + " at today's pace"
	}
	return text
}

// KeptWords lists the nodes that are reserved for a job, at most the first most of them. It returns "" if there are
// none.
func (x *Prospect) KeptWords(most int, moment func(ms int64) string) string {
	names := x.GetKept()
	if len(names) == 0 {
		return ""
	}
	until := " until it starts"
	switch {
	case x.KeptUntilUnixMs > 0:
		until = " until " + moment(x.KeptUntilUnixMs)
	case x.Basis == Basis_BASIS_LEARNED: // the plan changes with the cluster
		until = " as things stand"
	}
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	if len(names) == 1 {
		return text + " is kept for it" + until
	}
	return text + " are kept for it" + until
}

// thousands formats a number with separators: 1,200.
func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return thousands(n/1000) + "," + strconv.FormatInt(1000+n%1000, 10)[1:]
}
