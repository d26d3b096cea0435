// Package clock reads the host's steady time, for code that runs in real time. Actors get the time from a port, and the
// simulator does not use this package. The time of day is only for display, so this package does not have it.
package clock

import "time"

// This file has the clock for goroutines that wait.

// Clock is the time for goroutines that wait. Tests replace it with their own clock.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Real is the real clock of this process.
type Real struct{}

// Now returns the time with a reading of the steady clock.
func (Real) Now() time.Time { return time.Now() }

// After returns a channel that gets the time after d.
func (Real) After(d time.Duration) <-chan time.Time { return time.After(d) }
