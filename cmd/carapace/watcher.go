//go:build linux

package main

// This file owns the thread with which Go's runtime watches the others: it wakes every 70 µs as long as there is
// something to watch, and each time the kernel interrupts the thread that makes the container. That is a tenth of the
// processor time of a short container.

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// watcherSlackNs is how late that thread may be. It takes the processor from a goroutine that waits too long in a
// system call, so with one processor it is not delayed at all: there the others wait for it.
const watcherSlackNs = 1_000_000

// calmWatcher makes it wake less often. It is the second thread of every Go program; where it cannot be found or
// changed, it goes on as before. The container itself does not inherit this.
func calmWatcher() {
	if runtime.GOMAXPROCS(0) < 2 {
		return
	}
	threads, err := unix.Open("/proc/self/task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(threads)
	var entries [512]byte
	n, err := unix.ReadDirent(threads, entries[:])
	if err != nil {
		return
	}
	_, _, names := unix.ParseDirent(entries[:n], 2, nil) // The kernel lists them in the order in which they were made.
	if len(names) < 2 || names[0] != strconv.Itoa(os.Getpid()) {
		return
	}
	slack, err := unix.Open(filepath.Join("/proc", names[1], "timerslack_ns"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(slack, strconv.AppendInt(nil, watcherSlackNs, 10))
	unix.Close(slack)
}
