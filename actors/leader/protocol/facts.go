package protocol

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns what a machine tells of exits, and when they were.

// ToldExits are exits as a machine told of them, and when that was.
type ToldExits struct {
	Exits  []*messages.Exit
	AgesMs []int64 // an earlier version does not say
	At     actors.Instant
}

// Ended is when one came, by our own clock: counted back from when it was told of.
func (t ToldExits) Ended(i int) actors.Instant {
	if i >= len(t.AgesMs) {
		return t.At
	}
	return t.At.Plus(-actors.Millis(min(max(t.AgesMs[i], 0), maxExitAgeMs)))
}

// Told are the exits in what a machine has.
func (m Sighted) Told() ToldExits {
	return ToldExits{m.Slice.GetExits(), m.Slice.GetExitAgesMs(), m.Heard}
}

// maxExitAgeMs is a year: longer than anything waits to be told.
const maxExitAgeMs = 365 * 24 * 3600 * 1000
