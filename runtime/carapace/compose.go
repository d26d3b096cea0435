//go:build linux

package carapace

// A container's root for another program to put a container in: the same as our own makes, mount by mount, but for
// what that program makes by itself (/proc, /sys, /dev). It is root and would make what is missing as root, so it
// is left nothing to make.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// OtherWorkdir is where such a container is shown a workdir that lies in a directory of the machine: its user could
// replace it by a link before the program goes there.
const OtherWorkdir = "/.workdir"

// systemPlaces are covered by what the program mounts.
var systemPlaces = []string{"/proc", "/sys", "/dev"}

// ComposedRoot is where Compose puts a root, below its base.
func ComposedRoot(base string) string { return filepath.Join(base, "root") }

// InOwnMounts does something on a thread that has a mount namespace of its own, in which nothing reaches the mounts
// of the machine.
func InOwnMounts(do func() error) error {
	done := make(chan error, 1)
	onOwnThread(func() {
		if err := OwnMounts(); err != nil {
			done <- err
			return
		}
		done <- do()
	})
	return <-done
}

// OwnMounts gives the calling thread, which must be locked and never let go of, such a namespace.
func OwnMounts() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fault.OfMachine(fmt.Errorf("own mounts: %w", err))
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fault.OfMachine(fmt.Errorf("own mounts: %w", err))
	}
	return nil
}

// ComposedBase is an existing directory on which to compose the root of a container that has numbers of its own:
// root of the container has to pass to it, and the directories of an agent are closed to that user. It is covered
// up in the mounts of the calling thread alone.
const ComposedBase = "/dev/shm"

// Compose mounts a spec's root below an existing directory, in the calling thread's own mounts, and answers the
// working directory that the command is to have in it.
func Compose(spec Spec, base string) (workdir string, err error) {
	spec = spec.filled()
	defer unix.Umask(unix.Umask(0o022))
	r := &root{spec: &spec, order: &order{Spec: spec, Base: base}, composed: true}
	if r.spaces, err = newSpaces(spec.IDs); err != nil {
		return "", fault.OfMachine(err)
	}
	defer r.spaces.close()
	for i, mount := range spec.Mounts {
		if slices.ContainsFunc(systemPlaces, func(place string) bool { return Within(mount.Target, place) }) {
			return "", &SpecError{
				fmt.Sprintf("mounts[%d].target", i), mount.Target + " is the runtime's own; take another place",
			}
		}
	}
	for _, step := range []func() error{r.takeMounts, own(r.composeSystem), r.makeBase, own(r.composeNodes)} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return r.composeInside()
}

// composeSystem makes what root of a container of its own has no right to make, and the program as that root would: a
// sysfs of a network that others share. Where the network belongs to the job, root of the container may serve every
// port of it.
func (r *root) composeSystem() (err error) {
	switch r.spec.Net {
	case NetNone: // the network of the container, and the program makes both
		return nil
	case netHost:
		return r.takeSysfs()
	}
	return elsewhere(r.spec.Net, func() error {
		_ = openPorts(r.spec) // A machine that does not let this be set has its jobs serve the other ports.
		return r.takeSysfs()
	})
}

// takeSysfs makes it, for the network that the calling thread is in.
func (r *root) takeSysfs() (err error) {
	if r.spec.IDs != nil {
		r.sysfs, err = newMount("sysfs", systemDirs|unix.MOUNT_ATTR_RDONLY)
	}
	return err
}

// elsewhere does something in another network, and brings the calling thread back.
func elsewhere(network string, do func() error) (err error) {
	home, err := openFile("/proc/thread-self/ns/net", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer home.Close()
	if err := joinNetwork(network); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Setns(int(home), unix.CLONE_NEWNET)) }()
	return do()
}

func (r *root) placeSystem() error {
	if r.sysfs == 0 {
		return nil
	}
	return mountPlain(r.sysfs, nil, "/sys")
}

// ComposedNode is where Compose makes a device node of the machine's for a container that has numbers of its own,
// below its base. Such a container can make none, nor could its root use those of the machine's that are open to
// some group alone.
func ComposedNode(base, path string) string { return filepath.Join(base, nodesName, path) }

const nodesName = "nodes"

// makeNodesFolder makes the place for them, as long as anything can be made there.
func (r *root) makeNodesFolder() error {
	if !r.composed || r.spec.IDs == nil {
		return nil
	}
	return os.Mkdir(ComposedNode(r.order.Base, ""), 0o755)
}

// composeNodes makes the granted ones.
func (r *root) composeNodes() error {
	if r.spec.IDs == nil {
		return nil
	}
	granted, err := grantedDevices(r.spec.Devices)
	if err != nil {
		return err
	}
	nodes, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "mode=0711", "size=64k")
	if err != nil {
		return err
	}
	if err := attachAt(nodes, ComposedNode(r.order.Base, "")); err != nil {
		return err
	}
	for _, device := range granted {
		path := ComposedNode(r.order.Base, device.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(path, device.mode(), int(unix.Mkdev(device.major, device.minor))); err != nil &&
			err != unix.EEXIST {
			return fmt.Errorf("make %s: %w", device.path, err)
		}
		if err := unix.Chmod(path, 0o666); err != nil { // to all, as our own containers have them
			return err
		}
	}
	return nil
}

// composeInside does in the new root what goes by the container's paths. The thread then has its own root and working
// directory again.
func (r *root) composeInside() (workdir string, err error) {
	var home [2]int
	for i, path := range []string{"/", "."} {
		if home[i], err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return "", err
		}
		defer unix.Close(home[i])
	}
	if err := unix.Chroot(ComposedRoot(r.order.Base)); err != nil {
		return "", err
	}
	defer func() {
		for _, back := range []func() error{
			func() error { return unix.Fchdir(home[0]) }, func() error { return unix.Chroot(".") },
			func() error { return unix.Fchdir(home[1]) },
		} {
			if wrong := back(); wrong != nil && err == nil {
				err = wrong
			}
		}
	}()
	for _, step := range []func() error{r.placeSystem, r.mountTemporary, r.hide, r.placeMounts, r.placeSecrets} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return r.composeWorkdir()
}

// composeWorkdir makes the workdir where it is missing, as makeWorkdir does.
func (r *root) composeWorkdir() (string, error) {
	inside, err := r.inside()
	if err != nil {
		return "", fail("user", err)
	}
	if slices.ContainsFunc(systemPlaces, func(place string) bool { return Within(r.spec.Workdir, place) }) {
		return r.spec.Workdir, nil // it is not there yet
	}
	place, made, err := inside.Make(r.spec.Workdir, true)
	if err != nil {
		return "", fmt.Errorf("workdir: %s is missing and cannot be made, or is closed to the task's user: %w",
			r.spec.Workdir, err)
	}
	defer unix.Close(place)
	if made {
		if err := unix.Fchownat(place, "", int(inside.As.UID), int(inside.As.GID), unix.AT_EMPTY_PATH); err != nil {
			return "", err
		}
	}
	if r.own[hostpath.MountID(place)] || r.spec.Workdir == scratchTarget {
		return r.spec.Workdir, nil
	}
	tree, err := unix.OpenTree(place, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return "", fmt.Errorf("workdir: %w", err)
	}
	at, _, err := inside.Make(OtherWorkdir, true)
	if err != nil {
		unix.Close(tree)
		return "", fmt.Errorf("workdir: %w", err)
	}
	return OtherWorkdir, attach(tree, at)
}
