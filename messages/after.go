package messages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
)

// This file has the dependencies of a job on earlier jobs, and their texts.

// maxAfter limits the number of earlier jobs that one job may wait for.
const maxAfter = 256

// maxDelayMs limits the time after the start of an earlier job.
const maxDelayMs = int64(366 * 24 * time.Hour / time.Millisecond)

func (x *After) valid() error {
	if _, ok := AfterEnd_name[int32(x.GetEnd())]; !ok {
		return refuse("end", fmt.Sprintf("unsupported value %d", x.GetEnd()),
			"upgrade the scheduler: the client is newer")
	}
	if x.GetDelayMs() != 0 && x.GetEnd() != AfterEnd_AFTER_END_STARTED {
		return refuse("delay_ms", "is only possible after a start", "use the end started")
	}
	return first(id("job", x.GetJob()), between("delay_ms", x.GetDelayMs(), 0, maxDelayMs))
}

// afterElements refuses dependencies of elements for a job that is no array.
func (x *JobSpec) afterElements() error {
	for i, a := range x.GetAfter() {
		if a.GetEnd() == AfterEnd_AFTER_END_ELEMENT && x.GetArray() == nil {
			return refuse(fmt.Sprintf("after[%d].end", i), "is only possible for an array", "add the array, or use ok")
		}
	}
	return nil
}

// Meets reports whether an earlier job ended as required. AFTER_END_ANY accepts every end, even an unknown one.
func (x *After) Meets(s JobState) bool {
	switch x.GetEnd() {
	case AfterEnd_AFTER_END_ANY, AfterEnd_AFTER_END_STARTED:
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

// Awaits returns the earlier jobs that have not ended or started as required, as far as the record knows. The elements
// of an array wait for the elements of another array by their own records.
func (x *JobRecord) Awaits() (all []*After) {
	for _, a := range x.GetSpec().GetAfter() {
		_, ended := x.KnownOf(a.GetJob())
		if !ended && x.startOf(a) == nil && a.GetEnd() != AfterEnd_AFTER_END_ELEMENT {
			all = append(all, a)
		}
	}
	return all
}

// Unmet returns the dependencies that still matter for a new job with the same request.
func (x *JobRecord) Unmet() []*After {
	all := x.Awaits()
	for _, a := range x.GetSpec().GetAfter() {
		if a.GetEnd() == AfterEnd_AFTER_END_ELEMENT {
			all = append(all, a)
		}
	}
	return all
}

// startOf returns the known start of an earlier job, or nil. Only a dependency on a start uses it.
func (x *JobRecord) startOf(a *After) *AfterKnown {
	for _, k := range x.GetAfterStarted() {
		if a.GetEnd() == AfterEnd_AFTER_END_STARTED && k.GetJob() == a.GetJob() {
			return k
		}
	}
	return nil
}

// Learns reports whether a start or an end of an earlier job adds something to the record and to the facts that will be
// written.
func (x *JobRecord) Learns(fact *AfterKnown, coming []*AfterKnown) bool {
	return slices.ContainsFunc(x.Awaits(), func(a *After) bool {
		return a.GetJob() == fact.GetJob() && (a.GetEnd() == AfterEnd_AFTER_END_STARTED || !fact.started())
	}) && !slices.ContainsFunc(coming, func(k *AfterKnown) bool { return k.GetJob() == fact.GetJob() })
}

// started reports whether the fact is a start and no end.
func (x *AfterKnown) started() bool { return x.GetState() == JobState_JOB_STATE_ACTIVE }

// Learn adds facts about earlier jobs to a new version of a record.
func (x *JobRecord) Learn(facts []*AfterKnown) {
	x.AfterKnown, x.AfterStarted = slices.Clone(x.AfterKnown), slices.Clone(x.AfterStarted)
	for _, k := range facts {
		if k.started() {
			x.AfterStarted = append(x.AfterStarted, k)
		} else {
			x.AfterKnown = append(x.AfterKnown, k)
		}
	}
}

// BeginsUnixMs returns the earliest start of a job: its begin time, or a time after the start of an earlier job.
func (x *JobRecord) BeginsUnixMs() int64 { return max(x.GetSpec().GetBeginUnixMs(), x.DelayedUnixMs()) }

// DelayedUnixMs returns the latest of the times after starts of earlier jobs before which a job must not start.
func (x *JobRecord) DelayedUnixMs() (begin int64) {
	for _, a := range x.GetSpec().GetAfter() {
		if a.GetDelayMs() == 0 {
			continue
		}
		for _, k := range slices.Concat(x.GetAfterStarted(), x.GetAfterKnown()) {
			if k.GetJob() == a.GetJob() && k.GetSinceUnixMs() > 0 {
				begin = max(begin, k.GetSinceUnixMs()+a.GetDelayMs())
			}
		}
	}
	return begin
}

// Since returns when a finished job started, or when it ended if it never ran. With several attempts it is only an
// estimate.
func (x *JobRecord) Since() int64 { return max(0, x.GetFinishedUnixMs()-x.GetRanMs()) }

// ElementAfter returns the dependencies of one element of an array on elements of other arrays.
func (x *JobSpec) ElementAfter(index int32) (all []*After) {
	for _, a := range x.GetAfter() {
		if a.GetEnd() == AfterEnd_AFTER_END_ELEMENT {
			all = append(all, &After{Job: ElementID(a.GetJob(), index), End: AfterEnd_AFTER_END_OK})
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
	case AfterEnd_AFTER_END_STARTED:
		return "after the start of " + x.GetJob()
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
		case AfterEnd_AFTER_END_STARTED:
			text = "the start of " + text
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
func EndWords() []string { return []string{"ok", "any", "failed", "started", "element"} }

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

// Copied returns the spec with which a copy of this job is submitted. Met dependencies are left out. The copy of an
// element is an array with only this element, so that the copy gets the same index.
func (x *JobRecord) Copied() *JobSpec {
	if x.GetSpec() == nil {
		return nil
	}
	spec := proto.Clone(x.GetSpec()).(*JobSpec)
	spec.After = x.Unmet()
	if e := spec.GetElement(); e != nil {
		spec.Array, spec.Element = &ArraySpec{Indices: []*IndexRange{{First: e.GetIndex(), Last: e.GetIndex()}}}, nil
	}
	return spec
}
