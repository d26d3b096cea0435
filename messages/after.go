package messages

import (
	"fmt"
	"slices"
	"strings"
)

// This file owns which jobs another one waits for, and what is said of them.

// maxAfter bounds the jobs that one waits for.
const maxAfter = 256

func (x *After) valid() error {
	if _, ok := AfterEnd_name[int32(x.GetEnd())]; !ok {
		return refuse("end", fmt.Sprintf("unsupported value %d", x.GetEnd()),
			"upgrade the scheduler: the client is newer")
	}
	return id("job", x.GetJob())
}

// Meets reports whether a job's end is the one that is waited for. An end that nobody knows any more is any.
func (x *After) Meets(s JobState) bool {
	switch x.GetEnd() {
	case AfterEnd_AFTER_END_ANY:
		return true
	case AfterEnd_AFTER_END_FAILED:
		return s != JobState_JOB_STATE_SUCCEEDED && s != JobState_JOB_STATE_UNSPECIFIED
	}
	return s == JobState_JOB_STATE_SUCCEEDED
}

// KnownOf is how a job that is waited for has ended; false: that is not on disk yet.
func (x *JobRecord) KnownOf(job string) (JobState, bool) {
	for _, k := range x.GetAfterKnown() {
		if k.GetJob() == job {
			return k.GetState(), true
		}
	}
	return JobState_JOB_STATE_UNSPECIFIED, false
}

// Awaits are the jobs that have not ended yet, as far as the record knows, and that it waits for.
func (x *JobRecord) Awaits() (all []*After) {
	for _, a := range x.GetSpec().GetAfter() {
		if _, ok := x.KnownOf(a.GetJob()); !ok {
			all = append(all, a)
		}
	}
	return all
}

// NeverMet says which of the jobs that it waits for has ended otherwise than it was to; empty: none.
func (x *JobRecord) NeverMet() string {
	for _, a := range x.GetSpec().GetAfter() {
		if s, ok := x.KnownOf(a.GetJob()); ok && !a.Meets(s) {
			return "it was to run " + a.words() + ", and " + a.GetJob() + " " + endedAs(s)
		}
	}
	return ""
}

// words say when a job is planned that waits for another.
func (x *After) words() string {
	switch x.GetEnd() {
	case AfterEnd_AFTER_END_ANY:
		return "after the end of " + x.GetJob()
	case AfterEnd_AFTER_END_FAILED:
		return "after a failure of " + x.GetJob()
	}
	return "after a success of " + x.GetJob()
}

func endedAs(s JobState) string {
	switch s {
	case JobState_JOB_STATE_UNSPECIFIED:
		return "has ended with an unknown result"
	case JobState_JOB_STATE_CANCELLED:
		return "was cancelled"
	case JobState_JOB_STATE_TIMED_OUT:
		return "ran out of time"
	}
	return EndPhase(s)
}

// WaitsFor says which jobs are waited for, each with its phase where that is known.
func WaitsFor(all []*After, phase func(job string) string) string {
	const named = 8
	var words []string
	for _, a := range all[:min(len(all), named)] {
		text := a.GetJob()
		switch a.GetEnd() {
		case AfterEnd_AFTER_END_ANY:
			text = "the end of " + text
		case AfterEnd_AFTER_END_FAILED:
			text = "a failure of " + text
		}
		if p := phase(a.GetJob()); p != "" {
			text += " (" + p + ")"
		}
		words = append(words, text)
	}
	if more := len(all) - named; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	return "waits for " + strings.Join(words, ", ")
}

// EndWords are the ends as people write them, behind a colon.
func EndWords() []string { return []string{"ok", "any", "failed"} }

// Word is an end as people write it; empty where it need not be written.
func (x AfterEnd) Word() string {
	if x <= AfterEnd_AFTER_END_OK {
		return ""
	}
	return EndWords()[x-1]
}

// AfterEndOf reads it; false: it is none.
func AfterEndOf(word string) (AfterEnd, bool) {
	i := slices.Index(EndWords(), word)
	return AfterEnd(i + 1), i >= 0
}
