package host

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// This file owns what goes first: what is short, and what everybody waits for.

// Ahead runs something on a thread that goes before all others, as the least of those in real time. As one among many
// it would wait in the middle for as long as the kernel lets another run, which is milliseconds: many times what a pass
// of the Scheduler takes. Where the process may not (RLIMIT_RTPRIO, CAP_SYS_NICE) it runs as anything does, and a
// thread that an operator has put into real time stays as it is.
//
// A thread that is made meanwhile does not inherit it, for Go starts none from one that is locked.
func Ahead(run func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const me, noFlags = 0, 0
	if as, err := unix.SchedGetAttr(me, noFlags); err == nil && as.Policy == unix.SCHED_NORMAL {
		first := unix.SchedAttr{Size: as.Size, Policy: unix.SCHED_FIFO, Priority: 1}
		if unix.SchedSetAttr(me, &first, noFlags) == nil {
			defer func() { _ = unix.SchedSetAttr(me, as, noFlags) }() // to give it up is anybody's right
		}
	}
	run()
}
