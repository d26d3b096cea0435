//go:build linux

// Package tree removes and measures directory trees that tasks made: of any depth, with a constant number of
// descriptors, and with any names, modes and flags. It never follows a link and never leaves the mount of the tree.
// Only the agent's own paths are opened as paths. Files of a task are reached through open directories and single
// names.
package tree

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/hostpath"
)

// This file removes a tree.

const (
	// maxOpen is the depth up to which a removal keeps a descriptor per level. A deeper directory is first moved to
	// the top of the tree, and removed from there. One descriptor and ".." would not be safe: if a directory is
	// moved meanwhile, ".." leads elsewhere.
	maxOpen = 32
	// maxSteps bounds one removal, because a tree may grow as fast as it is removed. The next removal continues
	// with the rest.
	maxSteps = 1 << 24
	// batch is the number of names that are read before they are removed.
	batch = 1024
)

// errGrows reports that something is left after very many steps, perhaps because the tree still grows.
var errGrows = errors.New("the tree is too large for one removal, or grows as fast as it is removed; retry")

// errFull reports a directory that is not empty.
var errFull = errors.New("the directory is not empty")

// Remove removes a tree. A missing tree counts as removed. Entries that cannot be removed stay with their parent
// directories, and all others are removed. The error is the first one.
func Remove(path string) error { return RemoveWhile(path, func() bool { return true }) }

// RemoveWhile is like Remove, but ends with ErrStopped soon after goOn has returned false.
func RemoveWhile(path string, goOn func() bool) error { return removeWithin(path, maxSteps, goOn) }

func removeWithin(path string, steps int, goOn func() bool) error {
	parent, err := open(unix.AT_FDCWD, filepath.Dir(path))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		defer unix.Close(parent)
		r := &removal{mount: mountOf(parent), top: -1, steps: steps, goOn: goOn}
		err = r.remove(parent, filepath.Base(path), 0)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// removal is one call of Remove.
type removal struct {
	mount uint64
	top   int // the descriptor of the tree's top directory; -1: not open yet
	moved int // number of directories moved to the top
	done  int // number of entries removed or moved
	steps int // number of steps left
	goOn  func() bool
	end   error // why the removal ends early
}

// step counts one step.
func (r *removal) step() error {
	if r.steps--; r.steps < 0 {
		r.end = errGrows
	} else if r.steps%pace == 0 && !r.goOn() {
		r.end = ErrStopped
	}
	return r.end
}

// remove removes one entry of an open directory with its content.
func (r *removal) remove(at int, name string, depth int) error {
	if err := r.step(); err != nil {
		return err
	}
	err := r.unlink(at, name, depth > 0)
	if !errors.Is(err, errFull) {
		return err
	}
	if depth == maxOpen {
		return r.raise(at, name)
	}
	fd, err := r.enter(at, name)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	if depth == 0 {
		r.top = fd
	}
	err = r.empty(dir, fd, depth)
	if gone := r.unlink(at, name, depth > 0); gone != nil {
		return cmp.Or(err, gone)
	}
	return nil
}

// empty removes the content of a directory. It reads the directory again while that removes anything, because some file
// systems skip entries while others are removed.
func (r *removal) empty(dir *os.File, fd, depth int) (first error) {
	for before := -1; before < r.done && r.end == nil; {
		before, first = r.done, nil
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		for {
			names, err := dir.Readdirnames(batch)
			for _, name := range names {
				if err := r.remove(fd, name, depth+1); err != nil {
					first = cmp.Or(first, err)
				}
			}
			if err == io.EOF || r.end != nil {
				break
			}
			if err != nil {
				return cmp.Or(first, err)
			}
		}
	}
	return cmp.Or(r.end, first)
}

// unlink removes an entry without content. If its flags or its directory's mode forbid that, it clears them. within
// reports that the directory belongs to the tree.
func (r *removal) unlink(at int, name string, within bool) error {
	err := unlinkAny(at, name)
	if err == unix.EPERM || err == unix.EACCES {
		r.free(at, name, within)
		err = unlinkAny(at, name)
	}
	switch err {
	case nil, unix.ENOENT:
		r.done++
		return nil
	case unix.ENOTEMPTY, unix.EEXIST:
		return errFull
	case unix.EBUSY:
		return fmt.Errorf("%.80q is a mount point and was not removed; unmount it", name)
	}
	return fmt.Errorf("%.80q: %w", name, err)
}

func unlinkAny(at int, name string) error {
	err := unix.Unlinkat(at, name, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		if wrong := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); wrong != unix.ENOTDIR {
			err = wrong
		}
	}
	return err
}

// raise moves a directory to the top of the tree, under an unused name.
func (r *removal) raise(at int, name string) error {
	flags := uint(unix.RENAME_NOREPLACE)
	for tries := 0; ; {
		r.moved++
		err := unix.Renameat2(at, name, r.top, ".deep-"+strconv.Itoa(r.moved), flags)
		switch {
		case err == nil:
			r.done++
			return nil
		case err == unix.EEXIST && r.moved < maxSteps:
		case tries == 0: // flags or modes forbid it, or the file system does not support this flag of the call
			tries, flags = 1, 0
			r.free(at, name, true)
			unclose(at, name) // the owner must be able to write a directory to move it
		default:
			return fmt.Errorf("%.80q: %w", name, err)
		}
	}
}

// enter opens a directory of the tree, regardless of its mode, unless it is a mount point.
func (r *removal) enter(at int, name string) (int, error) {
	fd, err := open(at, name)
	if err == unix.EACCES {
		unclose(at, name)
		fd, err = open(at, name)
	}
	if err != nil {
		return -1, fmt.Errorf("%.80q: %w", name, err)
	}
	if mountOf(fd) != r.mount {
		unix.Close(fd)
		return -1, fmt.Errorf("%.80q is a mount point and was not removed; unmount it", name)
	}
	return fd, nil
}

func open(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// unclose makes a directory accessible to its owner again.
func unclose(at int, name string) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Chmod(hostpath.Link(fd), 0o700)
		unix.Close(fd)
	}
}

// mountOf returns the mount of an open file, or its device if the kernel does not number mounts.
func mountOf(fd int) uint64 {
	if id := hostpath.MountID(fd); id != 0 {
		return id
	}
	var stat unix.Stat_t
	_ = unix.Fstat(fd, &stat)
	return stat.Dev
}

// keepFlags lists the file flags that prevent even root from removing a file.
const keepFlags = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND // the same bits as in the ioctl

// free clears these flags on a file or directory and on its parent, and makes the parent writable for its owner. Only
// files and directories can have the flags. Other kinds are not opened, because opening a device may have effects.
func (r *removal) free(at int, name string, within bool) {
	if within {
		lift(at)
		_ = unix.Fchmod(at, 0o700)
	}
	var stat unix.Stat_t
	if unix.Fstatat(at, name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	if kind := stat.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		if mountOf(fd) == r.mount {
			lift(fd)
		}
		unix.Close(fd)
	}
}

// lift clears the flags of an open file.
func lift(fd int) {
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil && flags&keepFlags != 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags&^keepFlags)
	}
}
