package clock

import "golang.org/x/sys/unix"

// This file owns the machine's time since its boot. The command line runs on other systems too, and needs none of it.

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
