package host

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// This file owns the thread for what takes long and is in nobody's way: the answers to people's questions.

// yields is by how much that thread is nicer than the others of this process. Where processors are few, a pass of the
// Scheduler would wait behind an answer for as long as the kernel lets a thread run.
const yields = 15

// NewAside starts such a thread, which lasts as long as the process, and answers what runs something there and waits
// for it. A panic there is one of whoever waits.
func NewAside() func(run func()) {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		thread := unix.Gettid()
		if priority, err := unix.Getpriority(unix.PRIO_PROCESS, thread); err == nil { // which is 20 less how nice it is
			_ = unix.Setpriority(unix.PRIO_PROCESS, thread, min(20-priority+yields, 19)) // else it is a thread as all others
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
