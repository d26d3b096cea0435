//go:build linux

package carapace

// This file builds /dev, and masks or protects parts of /proc and /sys. /dev has six plain nodes and the granted
// devices.

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

var devLinks = []struct{ path, target string }{
	{"/dev/fd", "/proc/self/fd"}, {"/dev/stdin", "/proc/self/fd/0"}, {"/dev/stdout", "/proc/self/fd/1"},
	{"/dev/stderr", "/proc/self/fd/2"}, {"/dev/ptmx", "pts/ptmx"}, {"/dev/core", "/proc/kcore"},
}

// Masked lists the files that show or control the node rather than the container.
var Masked = []string{
	"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags",
	"/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/slabinfo", "/proc/timer_list", "/proc/timer_stats",
	"/proc/vmallocinfo", "/sys/firmware", "/sys/devices/virtual/powercap",
}

// Guarded lists kernel settings that a task may read but not change. /sys is completely read-only.
var Guarded = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

func (r *root) mountDev() error {
	dev, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC,
		r.belongs("source=dev", "mode=0755", "size=64k")...)
	if err := mountPlain(dev, err, "/dev"); err != nil {
		return err
	}
	if err := r.makeNodes(); err != nil {
		return err
	}
	for _, link := range devLinks {
		if err := os.Symlink(link.target, link.path); err != nil {
			return err
		}
	}
	options := []string{"mode=0620", "ptmxmode=0666"}
	if !r.order.Rootless {
		// 5 is the group tty on all systems.
		options = append(options, fmt.Sprintf("gid=%d", r.spec.IDs.outside(5)))
	}
	pts, err := newMount("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, options...)
	if err := mountPlain(pts, err, "/dev/pts"); err != nil {
		return err
	}
	shm, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC,
		r.belongs("source=shm", "mode=1777", fmt.Sprintf("size=%d", r.spec.ShmBytes))...)
	if err := mountPlain(shm, err, "/dev/shm"); err != nil {
		return err
	}
	queues, err := newMount("mqueue", systemDirs)
	return mountPlain(queues, err, "/dev/mqueue")
}

// makeNodes makes the device nodes. Without root, it mounts the host's nodes.
func (r *root) makeNodes() error {
	for _, device := range r.devices {
		if err := makeOwn(device.target, false); err != nil {
			return err
		}
		if err := attachAt(device.tree, device.target); err != nil {
			return err
		}
	}
	if r.order.Rootless {
		return nil
	}
	unix.Umask(0)
	defer unix.Umask(0o022)
	for _, node := range plainDevices {
		if err := unix.Mknod(node.path, unix.S_IFCHR|0o666, int(unix.Mkdev(node.major, node.minor))); err != nil {
			return fmt.Errorf("make %s: %w", node.path, err)
		}
	}
	for _, node := range r.order.Devices {
		if err := os.MkdirAll(filepath.Dir(node.Path), 0o755); err != nil {
			return err
		}
		// The node is open to all users, because the container is the boundary. The host's group may have
		// another id in the image.
		if err := unix.Mknod(node.Path, node.Mode|0o666, int(node.Number)); err != nil && err != unix.EEXIST {
			return fmt.Errorf("make %s: %w", node.Path, err)
		}
	}
	return nil
}

// guard masks and protects paths. It runs last, so no mount of the spec covers its work.
func (r *root) guard() error {
	for _, path := range Masked {
		if err := r.cover(path); err != nil {
			return fmt.Errorf("mask %s: %w", path, err)
		}
	}
	for _, path := range Guarded {
		tree, err := cloneTree(path)
		if err != nil {
			continue // Kernels differ; a missing path needs no protection.
		}
		if err := setReadOnly(tree, unix.AT_RECURSIVE); err != nil {
			return fmt.Errorf("protect %s: %w", path, err)
		}
		if err := attachAt(tree, path); err != nil {
			return err
		}
	}
	return nil
}
