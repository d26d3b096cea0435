//go:build linux

package carapace

// Mounts by descriptor. A mount is made detached, gets its attributes before anybody can see it, and is then moved
// onto a place that was opened before: no path is looked up twice, so nothing can be swapped in between.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// newMount makes a file system that is not mounted anywhere yet. Options are name=value, or a bare name.
func newMount(kind string, attributes int, options ...string) (int, error) {
	context, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", kind, err)
	}
	defer unix.Close(context)
	for _, option := range options {
		name, value, hasValue := strings.Cut(option, "=")
		if hasValue {
			err = unix.FsconfigSetString(context, name, value)
		} else {
			err = unix.FsconfigSetFlag(context, name)
		}
		if err != nil {
			return -1, fmt.Errorf("mount %s with %s: %w", kind, option, err)
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, fmt.Errorf("mount %s: %w", kind, err)
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", kind, err)
	}
	return mount, nil
}

// cloneTree makes a detached bind mount of what is at a path, with all that is mounted below it.
func cloneTree(path string) (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("bind %s: %w", path, err)
	}
	return tree, nil
}

func setReadOnly(mount int, flags uint) error {
	return setAttributes(mount, unix.MOUNT_ATTR_RDONLY, flags)
}

func setAttributes(mount int, attributes uint64, flags uint) error {
	if err := unix.MountSetattr(mount, "", flags|unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return fmt.Errorf("mount attributes (Linux 5.12 or newer is needed): %w", err)
	}
	return nil
}

// attach puts a detached mount onto an opened place, and closes both.
func attach(mount, place int) error {
	defer unix.Close(mount)
	defer unix.Close(place)
	return unix.MoveMount(mount, "", place, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// attachAt puts a detached mount onto a path, following what links there are.
func attachAt(mount int, path string) error {
	place, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(mount)
		return fmt.Errorf("mount onto %s: %w", path, err)
	}
	if err := attach(mount, place); err != nil {
		return fmt.Errorf("mount onto %s: %w", path, err)
	}
	return nil
}

// openPlain opens one of the root's own directories to mount upon, making it where it is missing. A link would put
// the mount somewhere else in the image, and what is masked below it with it.
func openPlain(path string) (int, error) {
	place, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT {
		if err = unix.Mkdir(path, 0o755); err == nil {
			place, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
		}
	}
	switch {
	case err == unix.ENOTDIR || err == unix.ELOOP:
		return -1, fmt.Errorf("%s in the rootfs is a link or a file; make it a directory", path)
	case err == unix.EROFS:
		return -1, fmt.Errorf("%s is missing in the rootfs, which is read-only; make the directory there", path)
	case err != nil:
		return -1, fmt.Errorf("%s in the rootfs: %w", path, err)
	}
	return place, nil
}

// mountPlain mounts onto one of the root's own directories.
func mountPlain(mount int, err error, path string) error {
	if err != nil {
		return err
	}
	place, err := openPlain(path)
	if err != nil {
		unix.Close(mount)
		return err
	}
	if err := attach(mount, place); err != nil {
		return fmt.Errorf("mount onto %s: %w", path, err)
	}
	return nil
}

// makeOwn makes what a mount is put upon, where it is missing: a directory, or an empty file for a file. The way to
// it is all of our own making: anywhere else root's hand may only make what the task's user could
// (hostpath.Inside).
func makeOwn(path string, directory bool) error {
	folder := path
	if !directory {
		folder = filepath.Dir(path)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil || directory {
		return err
	}
	if err := unix.Mknod(path, unix.S_IFREG|0o644, 0); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}
