//go:build linux

package carapace

// The host view: what a task of the image "host" sees of the machine. It is put together entry by entry on our own
// tmpfs, so that new places at the top can be made, and so that /proc, /sys, /dev, /run, /tmp and /root of the machine
// are not in it at all, rather than covered up.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ownEntries are the container's own at the top of a host view.
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

// viewHost fills the container's root with that of the machine.
func (r *root) viewHost(top string) error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return fmt.Errorf("read the machine's root: %w", err)
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

// viewEntry shows one entry of the machine's root: links as links, and a directory with all that is mounted below it.
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
		// Not opened: what is open for writing could be inherited by another container's init for a moment, and a mount that
		// somebody writes to cannot become read-only.
		if err := unix.Mknod(to, unix.S_IFREG|0o644, 0); err != nil {
			return fmt.Errorf("make %s: %w", to, err)
		}
	default:
		return nil // Sockets, pipes and devices at the top of a machine are no place for a task.
	}
	tree, err := cloneTree(from)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		return nil // It vanished meanwhile, or is not ours to see.
	}
	if err != nil {
		return err
	}
	return attachAt(tree, to)
}

// makeTop makes the target of a mount whose first element the machine does not have, while our tmpfs can still be
// written: nothing but what was made here is on the way.
func (r *root) makeTop(top string, mount shown) error {
	first, _, _ := strings.Cut(strings.TrimPrefix(mount.target, "/"), "/")
	if _, err := os.Lstat(filepath.Join("/", first)); err == nil || ownEntries[first] {
		return nil
	}
	return makeOwn(filepath.Join(top, mount.target), mount.directory)
}

// hide covers what the task must not see. It is done in the new root, where a link leads to what it hides.
func (r *root) hide() error {
	if r.spec.Rootfs != hostRootfs {
		return nil // A rootfs shows nothing of the machine; its paths are its own.
	}
	// What the view is mounted upon is part of what it shows: without a cover it would be met there again, and with
	// nothing hidden.
	for _, path := range slices.Concat(r.spec.Hide, alwaysHidden, []string{r.order.Base}) {
		if real, err := filepath.EvalSymlinks(path); err == nil && r.isOwn(real) {
			continue // /var/run is a link to /run as a rule, and that is the container's own already.
		}
		if err := r.cover(path); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

// isOwn reports whether a path of the host view belongs to the container rather than to the machine.
func (r *root) isOwn(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return ownEntries[first] || Within(path, "/var/tmp")
}

// cover puts an empty directory over a directory, and /dev/null over anything else.
func (r *root) cover(path string) error {
	place, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES {
		return nil // What we do not find, the task does not either.
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

// blankFolder answers a mount of an empty directory. They are all one: to make a file system costs more than to show it
// again.
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
