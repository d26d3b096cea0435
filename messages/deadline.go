package messages

import "strings"

// This file owns deadlines. A job that cannot end before its deadline, even if it started now, is cancelled.

// cannotEnd begins the words about a job that cannot end in time.
const cannotEnd = "cannot end before its deadline "

// DeadlineRefused returns why a change cannot set its deadline, together with its time limit. It returns nil if it can.
func (x *JobSpec) DeadlineRefused(m *Update, nowUnixMs int64) *Outcome {
	next := &JobSpec{DeadlineUnixMs: m.GetDeadlineUnixMs(), TimeLimitMs: x.GetTimeLimitMs()}
	if m.GetSetTimeLimit() {
		next.TimeLimitMs = m.GetTimeLimitMs()
	}
	switch {
	case next.DeadlineUnixMs == 0:
		return nil
	case next.TimeLimitMs == 0:
		return &Outcome{Code: Code_CODE_INVALID, Field: "deadline_unix_ms", Text: "a deadline needs a time limit",
			Hint: "set a time limit too"}
	}
	if why := next.CannotEnd(nowUnixMs); why != "" {
		return &Outcome{Code: Code_CODE_INVALID, Field: "deadline_unix_ms", Text: why,
			Hint: "set a later deadline or a shorter time limit"}
	}
	return nil
}

// CannotEnd returns the words about a job that cannot end before its deadline if it starts now. It returns the empty
// string if the job can, or has no deadline.
func (x *JobSpec) CannotEnd(nowUnixMs int64) string {
	if x.GetDeadlineUnixMs() == 0 || nowUnixMs+x.GetTimeLimitMs() <= x.GetDeadlineUnixMs() {
		return ""
	}
	return cannotEnd + Moment(x.GetDeadlineUnixMs(), nowUnixMs) + " with a time limit of " + Span(x.GetTimeLimitMs())
}

// OutcomeOfDeadline returns the outcome of a job with such words.
func OutcomeOfDeadline(words string) string { return "cancelled: " + words }

// MissedDeadline reports whether a job was cancelled because of its deadline.
func MissedDeadline(state JobState, cancel *Deed, outcome string) bool {
	return state == JobState_JOB_STATE_CANCELLED && cancel == nil &&
		strings.HasPrefix(outcome, OutcomeOfDeadline(cannotEnd))
}
