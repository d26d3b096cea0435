//go:build linux

package hostpath

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
)

// This file decides which paths of the node a job may name, regardless of its user's rights.

// Rules lists the paths that jobs may use on the node.
type Rules struct {
	// Hide lists the agent's own directories. Jobs may not name these, their parents or their content.
	Hide []string `json:"hide,omitempty"`
	// Mounts lists the directories that jobs may name; empty: all that their user can reach.
	Mounts []Place `json:"mounts,omitempty"`
	// Devices lists the device nodes that jobs may name. All others are refused.
	Devices []string `json:"devices,omitempty"`
}

// Place is a host directory that jobs may name, including its content.
type Place struct {
	Path     string   `json:"path"`
	ReadOnly bool     `json:"readOnly,omitempty"`
	Types    []string `json:"types,omitempty"` // of file systems; empty: those of Types
}

// Types lists the file systems that contain only files, by the kernel's names. All other types are refused. The
// kernel's own (proc, sysfs, cgroup, debugfs, bpf, devpts, devtmpfs …) give access to the host and to other tasks, and
// so may a new type.
var Types = []string{
	"9p", "afs", "bcachefs", "beegfs", "btrfs", "ceph", "cifs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs",
	"fuse", "fuseblk",
	"gfs2", "gpfs", "hugetlbfs", "iso9660", "lustre", "nfs", "nfs4", "ntfs3", "ocfs2", "orangefs", "overlay", "panfs",
	"ramfs", "smb3", "squashfs", "tmpfs", "vfat", "virtiofs", "wekafs", "xfs", "zfs",
}

// engines lists directories of other container engines and of Synapse, which give control over the host.
var engines = []string{
	"/var/lib/synapse", "/etc/synapse", "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers",
	"/var/lib/kubelet", "/etc/kubernetes", "/var/spool/cron", "/boot",
	"/run/docker", "/run/docker.sock", "/run/containerd", "/run/crio", "/run/podman", "/run/runc", "/run/crun",
}

// kernel lists directories that show the host and its other tasks, including all mounts there.
var kernel = []string{"/proc", "/sys"}

// check refuses a file that no job may name.
func (r Rules) check(o opened, path Path) error {
	if kind := o.stat.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return fmt.Errorf("%v is not a directory or regular file; only these can be shown to tasks", path)
	}
	if hidden, is := r.hides(o); is {
		return fmt.Errorf("%v is hidden from tasks because it belongs to %s; use another directory", path, hidden)
	}
	place, ok := r.placeOf(o.path)
	if !ok {
		return fault.OfJob(fmt.Errorf("%v is not in a directory that this node's policy allows", path))
	}
	if !place.allows(o.mount.kind) {
		return fmt.Errorf("%v is on a file system of type %s, which cannot be shown to tasks; use another directory",
			path, o.mount.kind)
	}
	return nil
}

// hides reports whether a file would expose a hidden directory, because it is that directory, is inside it or contains
// it. It checks the open file, regardless of its name.
func (r Rules) hides(o opened) (by string, ok bool) {
	// Devices have a file system of their own on a host, and a plain tmpfs in a container engine. Mounts below
	// /dev, such as shared memory and huge pages, are checked separately.
	if o.path == "/dev" || o.mount.at == "/dev" {
		return "the kernel", true
	}
	for _, list := range []struct {
		of    string
		paths []string
	}{{"the kernel", kernel}, {"the agent", r.Hide}, {"a service of the host", engines}} {
		for _, path := range list.paths {
			var stat unix.Stat_t
			if unix.Stat(path, &stat) != nil {
				continue // nothing to hide
			}
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				real = path
			}
			if within(o.path, real) || within(real, o.path) || stat.Dev == o.stat.Dev && stat.Ino == o.stat.Ino {
				return list.of, true
			}
		}
	}
	return "", false
}

// hidesAbove reports whether a file is a hidden directory or inside one.
func (r Rules) hidesAbove(o opened) bool {
	return slices.ContainsFunc(r.Hide, func(path string) bool {
		real, err := filepath.EvalSymlinks(path)
		return err == nil && within(o.path, real)
	})
}

func within(path, folder string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}

// placeOf returns the policy's nearest directory for a path.
func (r Rules) placeOf(path string) (nearest Place, ok bool) {
	if len(r.Mounts) == 0 {
		return Place{}, true
	}
	for _, place := range r.Mounts {
		real, err := filepath.EvalSymlinks(place.Path)
		if err != nil || !within(path, real) || ok && len(real) <= len(nearest.Path) {
			continue
		}
		nearest, ok = Place{real, place.ReadOnly, place.Types}, true
	}
	return nearest, ok
}

func (r Rules) readOnly(path string) bool {
	place, _ := r.placeOf(path)
	return place.ReadOnly
}

func (p Place) allows(kind string) bool {
	if len(p.Types) > 0 {
		return slices.Contains(p.Types, kind)
	}
	base, _, _ := strings.Cut(kind, ".") // types such as fuse.sshfs
	return slices.Contains(Types, base)
}

// allowsBelow reports whether all mounts below a file may be shown with it.
func (r Rules) allowsBelow(o opened) bool {
	place, _ := r.placeOf(o.path)
	all, err := mounts()
	if err != nil || !o.directory() {
		return false
	}
	for _, m := range all {
		if m.at == o.path || !within(m.at, o.path) {
			continue // it is not below, or the opened file covers it
		}
		if !place.allows(m.kind) {
			return false
		}
		if _, hidden := r.hides(opened{path: m.at}); hidden {
			return false
		}
	}
	return true
}

// mount is one line of the kernel's list of mounts.
type mount struct {
	id   string
	at   string // its mount point
	kind string // its file system type
}

// mounts returns the mounts that the calling thread sees.
func mounts() ([]mount, error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	var all []mount
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(kind) < 1 {
			continue
		}
		all = append(all, mount{fields[0], unescape.Replace(fields[4]), kind[0]})
	}
	return all, nil
}

// unescape replaces the four characters that the kernel writes as octal numbers.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountOf returns the mount of an open file.
func mountOf(fd int) (mount, error) {
	all, err := mounts()
	if err != nil {
		return mount{}, err
	}
	id := strconv.FormatUint(MountID(fd), 10)
	for _, m := range all {
		if m.id == id {
			return m, nil
		}
	}
	return mount{}, fmt.Errorf("the mount %s of the file is not visible", id)
}
