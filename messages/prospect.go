package messages

import (
	"strconv"
	"strings"
)

// This file owns the words for when a job starts.

// Infeasible begins why a job never starts that no idle cluster of the known nodes could hold.
const Infeasible = "Infeasible: "

// Words say when a job starts, as far as that is known, to a reader at nowMs. moment writes an instant, span (ms) how
// long something takes.
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

// expected says for when a start is planned, and by how much it is late. It never says that a job starts now.
func (x *Prospect) expected(nowMs int64, moment, span func(ms int64) string) string {
	if late := x.OverdueMs(nowMs); late > 0 {
		return "expected " + moment(x.AtUnixMs) + ", overdue " + span(late)
	}
	return "expected ~" + moment(x.AtUnixMs)
}

// overdueFrom is how much later than expected a start is overdue. Clocks differ, and an answer is on its way.
const overdueFrom = 10_000

// OverdueMs is how long ago a job was expected to start; 0: it is not late, or no time is known.
func (x *Prospect) OverdueMs(nowMs int64) int64 {
	if late := nowMs - x.GetAtUnixMs(); x.GetAtUnixMs() > 0 && late >= overdueFrom {
		return late
	}
	return 0
}

// queueWords say what has its turn before a job without a time.
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

// KeptWords say what is kept for a job; empty: nothing. Of more machines than most some are named.
func (x *Prospect) KeptWords(most int, moment func(ms int64) string) string {
	names := x.GetKept()
	if len(names) == 0 {
		return ""
	}
	until := " until it starts"
	switch {
	case x.KeptUntilUnixMs > 0:
		until = " until " + moment(x.KeptUntilUnixMs)
	case x.Basis == Basis_BASIS_LEARNED: // it is planned again whenever something changes
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

// thousands writes a number as one reads it: 1,200.
func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return thousands(n/1000) + "," + strconv.FormatInt(1000+n%1000, 10)[1:]
}
