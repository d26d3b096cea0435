package messages

import (
	"fmt"
	"slices"
	"strings"
)

// This file has the dependencies of a job on earlier jobs, and their texts.

// maxAfter limits the number of earlier jobs that one job may wait for.
const maxAfter = 256

func (x *After) valid() error {
	if _, ok := AfterEnd_name[int32(x.GetEnd())]; !ok {
		return refuse("end", fmt.Sprintf("unsupported value %d", x.GetEnd()),
			"upgrade the scheduler: the client is newer")
	}
	return id("job", x.GetJob())
}

// Meets reports whether an earlier job ended as required. AFTER_END_ANY accepts every end, even an unknown one.
func (x *After) Meets(s JobState) bool {
	switch x.GetEnd() {
	case AfterEnd_AFTER_END_ANY:
		return true
	case AfterEnd_AFTER_END_FAILED:
		return s != JobState_JOB_STATE_SUCCEEDED && s != JobState_JOB_STATE_UNSPECIFIED
	}
	return s == JobState_JOB_STATE_SUCCEEDED
}

// KnownOf returns the final state of an earlier job. It returns false if that state is not on disk yet.
func (x *JobRecord) KnownOf(job string) (JobState, bool) {
	for _, k := range x.GetAfterKnown() {
		if k.GetJob() == job {
			return k.GetState(), true
		}
	}
	return JobState_JOB_STATE_UNSPECIFIED, false
}

// Awaits returns the earlier jobs that have not ended, as far as the record knows.
func (x *JobRecord) Awaits() (all []*After) {
	for _, a := range x.GetSpec().GetAfter() {
		if _, ok := x.KnownOf(a.GetJob()); !ok {
			all = append(all, a)
		}
	}
	return all
}

// NeverMet returns an explanation if an earlier job ended in another way than required, and "" otherwise.
func (x *JobRecord) NeverMet() string {
	for _, a := range x.GetSpec().GetAfter() {
		if s, ok := x.KnownOf(a.GetJob()); ok && !a.Meets(s) {
			return "it was to run " + a.words() + ", and " + a.GetJob() + " " + endedAs(s)
		}
	}
	return ""
}

// words returns when the dependent job may start, as text.
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

// WaitsFor lists the earlier jobs as text, each with its phase if the phase is known.
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

// EndWords returns the words that users write after the colon of a job ID, in the order of AfterEnd.
func EndWords() []string { return []string{"ok", "any", "failed"} }

// Word returns the word that users write for an end, and "" for the default.
func (x AfterEnd) Word() string {
	if x <= AfterEnd_AFTER_END_OK {
		return ""
	}
	return EndWords()[x-1]
}

// AfterEndOf parses a word of EndWords. It returns false for any other word.
func AfterEndOf(word string) (AfterEnd, bool) {
	i := slices.Index(EndWords(), word)
	return AfterEnd(i + 1), i >= 0
}
