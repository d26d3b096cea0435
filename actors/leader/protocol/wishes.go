package protocol

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
)

// This file owns what people want of a job or of an array, for whose actors it is the same.

// WhyCancelled is why a job is not to run: somebody cancelled it, or what it was to run after has ended otherwise;
// empty: it may.
func WhyCancelled(rec *messages.JobRecord) string {
	if rec.Cancel != nil {
		return WordsOfCancel(rec.Cancel)
	}
	if never := rec.NeverMet(); never != "" {
		return "cancelled: " + never
	}
	return ""
}

// NoArray is the answer to who would have so many elements of one job at once.
func NoArray() *messages.Outcome {
	return &messages.Outcome{
		Code: messages.Code_CODE_INVALID, Field: "array_most", Text: "is given, and the job is no array",
		Hint: "name an array",
	}
}

func WordsOfCancel(cancel *messages.Deed) string {
	return strings.TrimSuffix("cancelled: "+cancel.Reason, ": ")
}

// Conclude ends a job. Its secrets end with it: no task of it is started any more.
func Conclude(rec *messages.JobRecord, s messages.JobState, code int32, outcome string, now int64) {
	rec.Sealed = nil
	rec.State, rec.ExitCode, rec.Outcome, rec.FinishedUnixMs = s, code, outcome, now
}

// SpecWish is the spec as people want it, with all changes that are not on disk yet.
type SpecWish struct {
	Spec *messages.JobSpec
	Deed *messages.Deed
	To   string // whose the job is to be; empty: as it is
}

// Asker is a client that waits for its answer.
type Asker struct {
	PID    *actor.PID
	Answer func() any
}

// HoldWish is what people wanted last: that the job be held, or, where hold is nil,
// that it be released. One value and not a flag for each: of a hold and a release
// that meet the same write, the later one counts.
type HoldWish struct{ Hold *messages.Deed }
