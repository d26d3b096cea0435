//go:build linux

package carapace

// This file builds the host view, the root of a task with the image "host". It mounts the host's top-level directories
// one by one on a new tmpfs. New top-level directories are therefore possible. The host's /proc, /sys, /dev, /run, /tmp
// and /root are not covered but completely absent.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ownEntries lists the top-level directories that the container has for itself in a host view.
var ownEntries = map[string]bool{
	"proc": true, "sys": true, "dev": true, "run": true, "tmp": true, "root": true,
	"lost+found": true, "scratch": true,
}

// alwaysHidden lists paths that no task needs and that can do much harm: Synapse's state and keys, and the sockets of
// other container engines. A socket works through a read-only mount. Most sockets are in /run, which is not mounted at
// all.
var alwaysHidden = []string{
	"/var/run", "/var/lib/synapse", "/etc/synapse", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet",
	"/etc/kubernetes", "/var/spool/cron", "/boot",
}

// viewHost fills the container's root with the host's directories.
func (r *root) viewHost(top string) error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return fmt.Errorf("read the host's root: %w", err)
	}
	for _, entry := range entries {
		if ownEntries[entry.Name()] {
			continue
		}
		if err := viewEntry(filepath.Join("/", entry.Name()), filepath.Join(top, entry.Name()), entry); err != nil {
			return err
		}
	}
	for name := range ownEntries {
		if name == "lost+found" || name == "scratch" && r.spec.Scratch == "" {
			continue
		}
		if err := os.Mkdir(filepath.Join(top, name), 0o755); err != nil {
			return err
		}
	}
	if r.composed {
		if err := os.Mkdir(filepath.Join(top, OtherWorkdir), 0o755); err != nil {
			return err
		}
	}
	for _, mount := range r.mounts {
		if err := r.makeTop(top, mount); err != nil {
			return err
		}
	}
	base, err := unix.Open(r.order.Base, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(base)
	attributes := uint64(unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID)
	if !r.order.Rootless {
		attributes |= unix.MOUNT_ATTR_NODEV
	}
	return setAttributes(base, attributes, unix.AT_RECURSIVE)
}

// viewEntry shows one entry of the host's root. A link stays a link. A directory includes all mounts below it.
func viewEntry(from, to string, entry os.DirEntry) error {
	switch {
	case entry.Type()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case entry.IsDir():
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	case entry.Type().IsRegular():
		// Mknod does not open the file. Another container's init could inherit a descriptor that is open for
		// writing. A mount with an open writer cannot become read-only.
		if err := unix.Mknod(to, unix.S_IFREG|0o644, 0); err != nil {
			return fmt.Errorf("make %s: %w", to, err)
		}
	default:
		return nil // Tasks do not need sockets, pipes and devices in the host's root.
	}
	tree, err := cloneTree(from)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return nil // It vanished, or this process may not see it.
	}
	if err != nil {
		return err
	}
	return attachAt(tree, to)
}

// makeTop makes the target of a mount whose first path element is missing on the host. The new tmpfs is still writable,
// and the path leads only through new directories.
func (r *root) makeTop(top string, mount shown) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(mount.target, "/"), "/")
	if _, err := os.Lstat(filepath.Join("/", first)); err == nil || ownEntries[first] {
		return nil
	}
	return makeOwn(filepath.Join(top, mount.target), mount.directory)
}

// hide covers the hidden paths. It runs in the new root, where a link leads to its target in the view.
func (r *root) hide() error {
	if r.spec.Rootfs != hostRootfs {
		return nil // A rootfs shows no host paths.
	}
	// The base directory is part of the view too. Without a cover, the task would find the view a second time
	// there, with nothing hidden.
	for _, path := range slices.Concat(r.spec.Hide, alwaysHidden, []string{r.order.Base}) {
		if real, err := filepath.EvalSymlinks(path); err == nil && r.isOwn(real) {
			continue // /var/run is usually a link to /run, which already belongs to the container.
		}
		if err := r.cover(path); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

// isOwn reports whether a path of the host view belongs to the container and not to the host.
func (r *root) isOwn(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return ownEntries[first] || Within(path, "/var/tmp")
}

// cover mounts an empty directory over a directory, and /dev/null over any other file.
func (r *root) cover(path string) error {
	place, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES {
		return nil // The task cannot find the path either.
	}
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(place, &stat); err != nil {
		unix.Close(place)
		return err
	}
	var blank int
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		blank, err = r.blankFolder()
	} else {
		blank, err = cloneTree("/dev/null")
	}
	if err != nil {
		unix.Close(place)
		return err
	}
	return attach(blank, place)
}

// blankFolder returns a mount of an empty directory. All covers share one file system, because a clone is cheaper than
// a new one.
func (r *root) blankFolder() (int, error) {
	if r.blank > 0 {
		return unix.OpenTree(r.blank, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	}
	made, err := newMount("tmpfs", systemDirs|unix.MOUNT_ATTR_RDONLY, "mode=0555", "size=4k")
	if err != nil {
		return -1, err
	}
	r.blank, err = unix.FcntlInt(uintptr(made), unix.F_DUPFD_CLOEXEC, 3)
	return made, err
}
