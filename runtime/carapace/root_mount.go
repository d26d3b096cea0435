//go:build linux

package carapace

// This file mounts by descriptor. A mount is made detached and gets its attributes before it is visible. Then it is
// attached to a directory that is already open. No path is resolved twice, so it cannot be replaced in between.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// newMount makes a detached file system. An option is name=value, or only a name.
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

// cloneTree makes a detached bind mount of a path, including all mounts below it.
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
		return fmt.Errorf("set mount attributes (requires Linux 5.12 or newer): %w", err)
	}
	return nil
}

// attach attaches a detached mount to an open directory or file, and closes both descriptors.
func attach(mount, place int) error {
	defer unix.Close(mount)
	defer unix.Close(place)
	return unix.MoveMount(mount, "", place, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// attachAt attaches a detached mount to a path. It follows links.
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

// openPlain opens one of the root's own directories as a mount point, and makes it if it is missing. It follows no
// link, because a link would move the mount and its masked parts elsewhere in the image.
func openPlain(path string) (int, error) {
	place, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT {
		if err = unix.Mkdir(path, 0o755); err == nil {
			place, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
		}
	}
	switch {
	case err == unix.ENOTDIR || err == unix.ELOOP:
		return -1, fmt.Errorf("%s in the rootfs is a link or a file; replace it with a directory", path)
	case err == unix.EROFS:
		return -1, fmt.Errorf("%s is missing in the read-only rootfs; add the directory to the rootfs", path)
	case err != nil:
		return -1, fmt.Errorf("%s in the rootfs: %w", path, err)
	}
	return place, nil
}

// mountPlain attaches a mount to one of the root's own directories.
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

// makeOwn makes a mount point if it is missing: a directory, or an empty file for a file. The caller ensures that all
// of the path is newly made by this process. Elsewhere, root may make only what the task's user could make
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
