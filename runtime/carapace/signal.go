//go:build linux

package carapace

// This file sends signals to the command. A signal goes to the container's first process: the command itself, or an
// init that forwards it.

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// stops lists signals that would stop init instead of the command. A stopped member of a gang is useless anyway.
var stops = []syscall.Signal{unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}

func sendSignal(pidfd int, signal syscall.Signal) error {
	if slices.Contains(stops, signal) {
		return fmt.Errorf("signal %d: a container cannot be stopped and continued; send a signal that ends it", int(signal))
	}
	if err := unix.PidfdSendSignal(pidfd, signal, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal %d: %w", int(signal), err)
	}
	return nil
}
