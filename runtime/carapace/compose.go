//go:build linux

package carapace

// This file composes a container's root for a program other than carapace, with the same mounts as for carapace's own
// containers. The exceptions are /proc, /sys and /dev, which that program mounts itself. The program is root and would
// create missing paths as root, so this file creates all of them.

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

// OtherWorkdir is the path in the container of a workdir on a mounted host directory. The user could otherwise replace
// the workdir by a link before the program enters it.
const OtherWorkdir = "/.workdir"

// systemPlaces lists the directories that the program covers with its own mounts.
var systemPlaces = []string{"/proc", "/sys", "/dev"}

// ComposedRoot returns the path of a composed root below its base.
func ComposedRoot(base string) string { return filepath.Join(base, "root") }

// InOwnMounts calls do on a thread with a separate mount namespace, from which no mount propagates to the host.
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

// OwnMounts gives the calling thread such a namespace. The caller must have locked the thread and must never unlock it.
func OwnMounts() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fault.OfMachine(fmt.Errorf("make a mount namespace: %w", err))
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fault.OfMachine(fmt.Errorf("make the mounts private: %w", err))
	}
	return nil
}

// ComposedBase is an existing directory for composed roots of containers with a separate uid range. The container's
// root must be able to pass through it, and the directories of an agent are closed to that user. It is covered only in
// the mounts of the calling thread.
const ComposedBase = "/dev/shm"

// Compose mounts a spec's root below an existing directory, in the calling thread's own mounts. It returns the working
// directory for the command inside the root.
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
				fmt.Sprintf("mounts[%d].target", i), mount.Target + " is used by the runtime; choose another target",
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

// composeSystem mounts what root of a container with a separate uid range cannot mount: the sysfs of a shared network.
// If the network belongs to the job, composeSystem also lets the container's root listen on every port.
func (r *root) composeSystem() (err error) {
	switch r.spec.Net {
	case NetNone: // the program makes the network and its sysfs
		return nil
	case netHost:
		return r.takeSysfs()
	}
	return elsewhere(r.spec.Net, func() error {
		_ = openPorts(r.spec) // If the host does not permit this, jobs use the other ports.
		return r.takeSysfs()
	})
}

// takeSysfs mounts a sysfs of the network of the calling thread.
func (r *root) takeSysfs() (err error) {
	if r.spec.IDs != nil {
		r.sysfs, err = newMount("sysfs", systemDirs|unix.MOUNT_ATTR_RDONLY)
	}
	return err
}

// elsewhere calls do in another network and returns the calling thread to its own.
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

// ComposedNode returns the path below base of a device node for a container with a separate uid range. Such a container
// cannot make device nodes. Its root could not use host nodes that are open to one group only.
func ComposedNode(base, path string) string { return filepath.Join(base, nodesName, path) }

const nodesName = "nodes"

// makeNodesFolder makes the folder of device nodes while the base is still writable.
func (r *root) makeNodesFolder() error {
	if !r.composed || r.spec.IDs == nil {
		return nil
	}
	return os.Mkdir(ComposedNode(r.order.Base, ""), 0o755)
}

// composeNodes makes the nodes of the granted devices.
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
		if err := unix.Chmod(path, 0o666); err != nil { // for all users, as in carapace's own containers
			return err
		}
	}
	return nil
}

// composeInside prepares the paths inside the new root. It restores the root and the working directory of the thread.
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

// composeWorkdir makes the workdir if it is missing, like makeWorkdir.
func (r *root) composeWorkdir() (string, error) {
	inside, err := r.inside()
	if err != nil {
		return "", fail("user", err)
	}
	if slices.ContainsFunc(systemPlaces, func(place string) bool { return Within(r.spec.Workdir, place) }) {
		return r.spec.Workdir, nil // it does not exist yet
	}
	place, made, err := inside.Make(r.spec.Workdir, true)
	if err != nil {
		return "", fmt.Errorf("workdir: %s cannot be made, or the task's user cannot enter it: %w",
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
