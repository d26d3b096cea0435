//go:build linux

package carapace

// This file makes a separate /dev/null for a runtime like crun. Such a runtime changes the owner of its standard
// streams to the container's user. The host's own /dev/null would then belong to that user.

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OwnNull opens a null device that no other process can open.
func OwnNull() (*os.File, error) {
	folder, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "mode=0755", "size=4k")
	if err != nil {
		return nil, err
	}
	defer unix.Close(folder)
	if err := unix.Mknodat(folder, "null", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		return nil, fmt.Errorf("make a null device: %w", err)
	}
	if err := unix.Fchmodat(folder, "null", 0o666, 0); err != nil {
		return nil, err
	}
	null, err := unix.Openat(folder, "null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a null device: %w", err)
	}
	return os.NewFile(uintptr(null), os.DevNull), nil
}
