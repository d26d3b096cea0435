package clock

import "golang.org/x/sys/unix"

// This file reads the time since the host's boot. Only Linux programs need it; the command line also runs on other
// systems.

// BootNs returns the nanoseconds since the host booted, including time asleep. Tasks use it to measure the age of the
// last contact with the control plane, which does not sleep. Processes of the same boot can compare their readings, as
// an agent and its supervisors do.
func BootNs() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("cannot read the boot clock: " + err.Error()) // with 0, tasks would keep running without a leader
	}
	return now.Nano()
}
