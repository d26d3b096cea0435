package protocol

import (
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
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
		Code: messages.Code_CODE_INVALID, Field: "array_most", Text: "is set, but the job is not an array",
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

// HoldWish says what people wanted last: that the job be held, or, where hold is nil,
// that it be released. One value and not a flag for each: of a hold and a release
// that meet the same write, the later one counts.
type HoldWish struct{ Hold *messages.Deed }

// What follows owns the times that several of a leader's actors go by.

const (
	// beginLook is the longest wait between two looks at the wall clock.
	beginLook = time.Minute
	// maxAheadMs is how far ahead anything may be ordered: more is a slip in the year.
	maxAheadMs = 366 * 24 * 3600 * 1000
)

// UntilMs is the wait until a time of day, cut to the next look at the clock.
func UntilMs(atUnixMs, nowUnixMs int64) time.Duration {
	return actors.Millis(min(atUnixMs-nowUnixMs, beginLook.Milliseconds()))
}

// TooFarAhead refuses a time of day that nobody can mean; nil: it may be meant.
func TooFarAhead(field string, atUnixMs, nowUnixMs int64) *messages.Outcome {
	if atUnixMs-nowUnixMs <= maxAheadMs {
		return nil
	}
	return &messages.Outcome{
		Code: messages.Code_CODE_INVALID, Field: field, Text: "is more than a year in the future",
		Hint: "check the year",
	}
}

// ClaimTime is how long after an admission each of its reservations has ended by
// itself, where nothing came of it: the last Reserve leaves within the deadline.
func ClaimTime(c *actors.Constants) time.Duration {
	return c.ReserveDeadline + c.ReservationTTL + c.DecisionMargin
}

// UntilBarrier is how long a committed attempt may take until it has passed its barrier: what each phase may, for the
// Coordinator gives it up after that.
func UntilBarrier(spec *messages.JobSpec, c *actors.Constants) time.Duration {
	prepare := c.PrepareTimeout
	if ms := spec.GetPrepareTimeoutMs(); ms > 0 {
		prepare = actors.Millis(ms)
	}
	return c.StartDeadline + prepare + c.StartDeadline
}
