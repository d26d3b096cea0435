//go:build linux

package carapace

// Where a thread is at home: its namespaces, its root and its working directory, held by descriptors, since no path
// leads back from the inside of a container.

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
	at.process, failed[0] = unix.PidfdOpen(os.Getpid(), 0) // All other threads are still there.
	at.root, failed[1] = unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	at.folder, failed[2] = unix.Open(".", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err := errors.Join(failed[:]...); err != nil {
		at.close()
		return nowhere, fmt.Errorf("where we are: %w", err)
	}
	return at, nil
}

// enter brings the calling thread back. Its namespaces are left to the container, which then ends with its last
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
