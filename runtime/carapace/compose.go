//go:build linux

// A container's root for another program to put a container in: the same as our own makes, mount by mount, but for what that
// program makes by itself (/proc, /sys, /dev). It is root and would make what is missing as root, so it is left nothing to make.
package carapace

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/door"
	"github.com/yi-json/synapse/runtime/fault"
)

// OtherWorkdir is where a workdir is shown to such a container that lies in a directory of the machine's: its user could put a link
// in the place of it before the program goes there.
const OtherWorkdir = "/.workdir"

// systemPlaces are covered by what the program mounts.
var systemPlaces = []string{"/proc", "/sys", "/dev"}

// ComposedRoot is where Compose puts a root, below its base.
func ComposedRoot(base string) string { return filepath.Join(base, "root") }

// InOwnMounts does something on a thread that has a mount namespace of its own, in which nothing reaches the machine's.
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

// Compose mounts a spec's root below an existing directory, in the calling thread's own mounts, and answers the working directory
// that the command is to have in it.
func Compose(spec Spec, base string) (workdir string, err error) {
	spec = spec.filled()
	r := &root{spec: &spec, order: &order{Spec: spec, Base: base}, composed: true}
	for i, mount := range spec.Mounts {
		if slices.ContainsFunc(systemPlaces, func(place string) bool { return Within(mount.Target, place) }) {
			return "", &SpecError{fmt.Sprintf("mounts[%d].target", i), mount.Target + " is the runtime's own; take another place"}
		}
	}
	for _, step := range []func() error{r.takeMounts, r.makeBase} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return r.composeInside()
}

// composeInside does in the new root what goes by the container's paths. The thread then has its own root and working directory again.
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
			func() error { return unix.Fchdir(home[0]) }, func() error { return unix.Chroot(".") }, func() error { return unix.Fchdir(home[1]) },
		} {
			if wrong := back(); wrong != nil && err == nil {
				err = wrong
			}
		}
	}()
	for _, step := range []func() error{r.mountTemporary, r.hide, r.placeMounts} {
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
		return "", fmt.Errorf("workdir: %s is missing and cannot be made, or is closed to the task's user: %w", r.spec.Workdir, err)
	}
	defer unix.Close(place)
	if made {
		if err := unix.Fchownat(place, "", int(inside.As.UID), int(inside.As.GID), unix.AT_EMPTY_PATH); err != nil {
			return "", err
		}
	}
	if r.own[door.MountID(place)] || r.spec.Workdir == scratchTarget {
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
