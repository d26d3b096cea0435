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

// This file owns which places of the machine a job may name at all, whatever its user may reach.

// Rules lists the paths that jobs may use on the node.
type Rules struct {
	// Hide are the agent's own places: no job may name them, or anything above or below them.
	Hide []string `json:"hide,omitempty"`
	// Mounts are the places that jobs may name; empty: every place that their user reaches.
	Mounts []Place `json:"mounts,omitempty"`
	// Devices are the nodes that jobs may name; all others are refused.
	Devices []string `json:"devices,omitempty"`
}

// Place is a directory of the machine that jobs may name, with what is below it.
type Place struct {
	Path     string   `json:"path"`
	ReadOnly bool     `json:"readOnly,omitempty"`
	Types    []string `json:"types,omitempty"` // of file systems; empty: those that hold files
}

// Types are the file systems that hold files and nothing else, by the kernel's names. One that is not listed is
// refused: the kernel's own (proc, sysfs, cgroup, debugfs, bpf, devpts, devtmpfs …) are ways to the machine and to
// other tasks, and a new kind may be one too.
var Types = []string{
	"9p", "afs", "bcachefs", "beegfs", "btrfs", "ceph", "cifs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs",
	"fuse", "fuseblk",
	"gfs2", "gpfs", "hugetlbfs", "iso9660", "lustre", "nfs", "nfs4", "ntfs3", "ocfs2", "orangefs", "overlay", "panfs",
	"ramfs", "smb3", "squashfs", "tmpfs", "vfat", "virtiofs", "wekafs", "xfs", "zfs",
}

// engines are the places of other container engines, and of Synapse, through which the machine can be commanded.
var engines = []string{
	"/var/lib/synapse", "/etc/synapse", "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers",
	"/var/lib/kubelet", "/etc/kubernetes", "/var/spool/cron", "/boot",
	"/run/docker", "/run/docker.sock", "/run/containerd", "/run/crio", "/run/podman", "/run/runc", "/run/crun",
}

// kernel are the places that show the machine and its other tasks, with whatever is mounted there.
var kernel = []string{"/proc", "/sys"}

// check refuses what no job may name.
func (r Rules) check(o opened, path Path) error {
	if kind := o.stat.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return fmt.Errorf("%v is neither a directory nor a file, and nothing else of the machine is shown to tasks", path)
	}
	if hidden, is := r.hides(o); is {
		return fmt.Errorf("%v is hidden from tasks: %s keeps its own files there; choose another directory", path, hidden)
	}
	place, ok := r.placeOf(o.path)
	if !ok {
		return fault.OfJob(fmt.Errorf("%v is not among the places that this machine's policy lets jobs name", path))
	}
	if !place.allows(o.mount.kind) {
		return fmt.Errorf("%v is on a file system of type %s, which is not shown to tasks; name a directory of files",
			path, o.mount.kind)
	}
	return nil
}

// hides reports whether something would show a hidden place: because it is that place, lies in it, or contains it. It
// looks at what is open, under whatever name.
func (r Rules) hides(o opened) (by string, ok bool) {
	// Devices lie on a file system of their own kind here, and on a plain tmpfs in a container engine. What is
	// mounted below /dev, such as shared memory and huge pages, is judged for itself.
	if o.path == "/dev" || o.mount.at == "/dev" {
		return "the kernel", true
	}
	for _, list := range []struct {
		of    string
		paths []string
	}{{"the kernel", kernel}, {"the agent", r.Hide}, {"a service of the machine", engines}} {
		for _, path := range list.paths {
			var stat unix.Stat_t
			if unix.Stat(path, &stat) != nil {
				continue // there is nothing to be hidden
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

// hidesAbove reports whether something is a hidden place, or lies in one.
func (r Rules) hidesAbove(o opened) bool {
	return slices.ContainsFunc(r.Hide, func(path string) bool {
		real, err := filepath.EvalSymlinks(path)
		return err == nil && within(o.path, real)
	})
}

func within(path, folder string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}

// placeOf finds the policy's place for a path: the nearest one.
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
	base, _, _ := strings.Cut(kind, ".") // fuse.sshfs and its like
	return slices.Contains(Types, base)
}

// allowsBelow reports whether all that is mounted below something may be shown with it.
func (r Rules) allowsBelow(o opened) bool {
	place, _ := r.placeOf(o.path)
	all, err := mounts()
	if err != nil || !o.directory() {
		return false
	}
	for _, m := range all {
		if m.at == o.path || !within(m.at, o.path) {
			continue // it is not below, or what was opened covers it
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
	at   string // where it is mounted
	kind string // of its file system
}

// mounts are the mounts that the calling thread sees.
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

// unescape reads the four characters that the kernel writes as octal numbers.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountOf is the mount that something open is on.
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
	return mount{}, fmt.Errorf("its mount %s is not in sight", id)
}
