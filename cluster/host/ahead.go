package host

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// This file owns short work with high priority, which other work waits for.

// Ahead runs a function on a thread with the lowest real-time priority, which precedes all normal threads. With normal
// priority, it would wait for as long as the kernel lets another thread run: several milliseconds, which is many times
// a pass of the Scheduler. Without the permission (RLIMIT_RTPRIO, CAP_SYS_NICE), the function runs normally. A thread
// that an operator has given real-time priority keeps it.
//
// A thread created meanwhile does not inherit the priority, because Go starts no threads from a locked one.
func Ahead(run func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const me, noFlags = 0, 0
	if as, err := unix.SchedGetAttr(me, noFlags); err == nil && as.Policy == unix.SCHED_NORMAL {
		first := unix.SchedAttr{Size: as.Size, Policy: unix.SCHED_FIFO, Priority: 1}
		if unix.SchedSetAttr(me, &first, noFlags) == nil {
			defer func() { _ = unix.SchedSetAttr(me, as, noFlags) }() // lowering the priority needs no permission
		}
	}
	run()
}
