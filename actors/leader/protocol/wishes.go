package protocol

import (
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns client requests whose effect is the same for the Job and the Array.

// WhyCancelled returns why a job must not run: a user cancelled it, or a dependency ended with another result. It
// returns the empty string if the job may run.
func WhyCancelled(rec *messages.JobRecord) string {
	if rec.Cancel != nil {
		return WordsOfCancel(rec.Cancel)
	}
	if never := rec.NeverMet(); never != "" {
		return "cancelled: " + never
	}
	return ""
}

// NoArray returns the refusal of a concurrency limit for a job that is not an array.
func NoArray() *messages.Outcome {
	return &messages.Outcome{
		Code: messages.Code_CODE_INVALID, Field: "array_most", Text: "is set, but the job is not an array",
		Hint: "name an array",
	}
}

func WordsOfCancel(cancel *messages.Deed) string {
	return strings.TrimSuffix("cancelled: "+cancel.Reason, ": ")
}

// Conclude ends a job. It removes the job's secrets, because no further task starts.
func Conclude(rec *messages.JobRecord, s messages.JobState, code int32, outcome string, now int64) {
	rec.Sealed = nil
	rec.State, rec.ExitCode, rec.Outcome, rec.FinishedUnixMs = s, code, outcome, now
}

// SpecWish is the spec with all requested changes that are not on disk yet.
type SpecWish struct {
	Spec *messages.JobSpec
	Deed *messages.Deed
	To   string // the requested owner; empty: unchanged
}

// Asker is a client that waits for its answer.
type Asker struct {
	PID    *actor.PID
	Answer func() any
}

// HoldWish is the last request to hold the job or, if Hold is nil, to release it. A single value ensures that the later
// of a hold and a release counts if both go into the same write.
type HoldWish struct{ Hold *messages.Deed }

// The rest of this file owns times that several of a leader's actors use.

const (
	// beginLook is the longest interval between two checks of the wall clock.
	beginLook = time.Minute
	// maxAheadMs limits how far in the future a time may be. A larger value is probably a typing error in the year.
	maxAheadMs = 366 * 24 * 3600 * 1000
)

// UntilMs returns the time until a time of day, at most until the next check of the clock.
func UntilMs(atUnixMs, nowUnixMs int64) time.Duration {
	return actors.Millis(min(atUnixMs-nowUnixMs, beginLook.Milliseconds()))
}

// TooFarAhead returns the refusal of a time that is too far in the future. It returns nil for any other time.
func TooFarAhead(field string, atUnixMs, nowUnixMs int64) *messages.Outcome {
	if atUnixMs-nowUnixMs <= maxAheadMs {
		return nil
	}
	return &messages.Outcome{
		Code: messages.Code_CODE_INVALID, Field: field, Text: "is more than a year in the future",
		Hint: "check the year",
	}
}

// ClaimTime returns how long after an admission all its reservations have expired if it led to nothing. The last
// Reserve is sent before the reserve deadline.
func ClaimTime(c *actors.Constants) time.Duration {
	return c.ReserveDeadline + c.ReservationTTL + c.DecisionMargin
}

// UntilBarrier returns how long a committed attempt may take to pass its barrier: the sum of its phases, after which
// the Coordinator gives up.
func UntilBarrier(spec *messages.JobSpec, c *actors.Constants) time.Duration {
	prepare := c.PrepareTimeout
	if ms := spec.GetPrepareTimeoutMs(); ms > 0 {
		prepare = actors.Millis(ms)
	}
	return c.StartDeadline + prepare + c.StartDeadline
}
