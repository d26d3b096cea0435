package host

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// This file owns the low-priority thread for long work: explanations for users.

// yields is the increase of that thread's nice value. With few CPUs, a pass of the Scheduler would otherwise wait for
// as long as the kernel lets an explanation run.
const yields = 15

// NewAside starts such a thread for the lifetime of the process. It returns a function that runs work on the thread and
// waits for it. A panic of the work is raised in the caller.
func NewAside() func(run func()) {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		thread := unix.Gettid()
		if priority, err := unix.Getpriority(unix.PRIO_PROCESS, thread); err == nil { // 20 minus the nice value
			_ = unix.Setpriority(unix.PRIO_PROCESS, thread, min(20-priority+yields, 19)) // on an error, the priority stays
		}
		for run := range work {
			run()
		}
	}()
	return func(run func()) {
		broken := make(chan any)
		work <- func() {
			defer func() { broken <- recover() }()
			run()
		}
		if why := <-broken; why != nil {
			panic(why)
		}
	}
}
