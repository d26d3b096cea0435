//go:build linux

package carapace

// How signals get to the command: they are sent to the container's first process, which is an init that passes them on,
// or the command itself.

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// stops would stop init, and not what it watches; a stopped gang member is no use anyway.
var stops = []syscall.Signal{unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}

func sendSignal(pidfd int, signal syscall.Signal) error {
	if slices.Contains(stops, signal) {
		return fmt.Errorf("signal %d: a container cannot be stopped and continued; send one that ends it", int(signal))
	}
	if err := unix.PidfdSendSignal(pidfd, signal, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal %d: %w", int(signal), err)
	}
	return nil
}
