//go:build linux

package carapace

// This file remembers a thread's own namespaces, root and working directory. It keeps descriptors, because no path
// leads out of a container.

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

type home struct{ process, root, folder int }

var nowhere = home{-1, -1, -1}

func whereWeAre() (home, error) {
	at := nowhere
	var failed [3]error
	at.process, failed[0] = unix.PidfdOpen(os.Getpid(), 0) // all other threads are still in these namespaces
	at.root, failed[1] = unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	at.folder, failed[2] = unix.Open(".", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err := errors.Join(failed[:]...); err != nil {
		at.close()
		return nowhere, fmt.Errorf("open the thread's own namespaces: %w", err)
	}
	return at, nil
}

// enter moves the calling thread back. The container then holds its namespaces alone, and they end with its last
// process.
func (h home) enter(namespaces int) error {
	if err := unix.Setns(h.process, namespaces); err != nil {
		return err
	}
	if err := unix.Fchdir(h.root); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Fchdir(h.folder)
}

func (h home) close() {
	for _, fd := range []int{h.process, h.root, h.folder} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
