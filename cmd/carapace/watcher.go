//go:build linux

package main

// This file slows down the monitor thread of Go's runtime. It wakes up every 70 µs while goroutines run, and each
// time interrupts the thread that creates the container. That costs a tenth of the CPU time of a short container.

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// watcherSlackNs is the permitted delay of the monitor thread. The thread takes the CPU from a goroutine that
// blocks in a system call. With one CPU it is not delayed, because the other goroutines would wait.
const watcherSlackNs = 1_000_000

// calmWatcher makes the monitor thread wake up less often. It is the second thread of every Go program. If it is
// not found or cannot be changed, it stays as it is. The container does not inherit the setting.
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
	_, _, names := unix.ParseDirent(entries[:n], 2, nil) // the kernel lists threads in the order of their creation
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
