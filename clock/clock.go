// Package clock is a machine's own time, for what runs in real time. Actors are given the time by a port, and what runs
// in the simulator has none of this. The time of day is for people alone, and not here.
package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// This file owns the two clocks that a process goes by: the machine's since its boot, and the library's for what waits.

// BootNs is how long ago the machine booted, in nanoseconds, with what it slept: the control plane does not sleep, and
// the age of what a machine received from it is measured by this. Readings of one boot can be compared between
// processes, as an agent and its supervisors do.
func BootNs() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("the machine has no clock: " + err.Error()) // taken for 0, a supervisor would never stop what nobody leads
	}
	return now.Nano()
}

// Clock is the time as goroutines need it that wait. Tests bring their own.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Real is the clock of this process.
type Real struct{}

// Now reads the steady clock, too.
func (Real) Now() time.Time { return time.Now() }

// After waits.
func (Real) After(d time.Duration) <-chan time.Time { return time.After(d) }
