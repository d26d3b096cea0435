// Package clock is a machine's own time, for code that runs in real time. Actors get the time from a port, and nothing
// in the simulator uses this package. The time of day is for people only and is not here.
package clock

import "time"

// This file owns the library's clock for goroutines that wait.

// Clock is the time for goroutines that wait. Tests have a clock of their own.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Real is the clock of this process.
type Real struct{}

// Now includes the reading of the steady clock.
func (Real) Now() time.Time { return time.Now() }

// After sends the time once d has passed.
func (Real) After(d time.Duration) <-chan time.Time { return time.After(d) }
