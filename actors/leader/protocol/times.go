package protocol

import (
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the times that several of a leader's actors go by.

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
		Code: messages.Code_CODE_INVALID, Field: field, Text: "is more than a year ahead", Hint: "look at the year",
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
