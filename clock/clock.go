// Package clock is a machine's own time, for code that runs in real time. Actors get the time from a port, and nothing
// in the simulator uses this package. The time of day is for people only and is not here.
package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// This file owns the two clocks of a process: the machine's time since its boot, and the library's clock for goroutines
// that wait.

// BootNs is how long ago the machine booted, in nanoseconds, sleep included: the control plane does not sleep, and this
// measures the age of what a machine received from it. Readings of one boot can be compared between processes, as an
// agent and its supervisors do.
func BootNs() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("the machine has no clock: " + err.Error()) // with 0, tasks without a leader would run on
	}
	return now.Nano()
}

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
