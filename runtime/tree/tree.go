//go:build linux

// Package tree removes and measures directory trees that tasks made: of any depth, with a constant number of
// descriptors, whatever their names, modes and flags are. It never follows a link and never leaves the mount that
// the tree is on. Only the agent's own paths are opened as paths; what a task made is reached through open
// directories and single names.
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

// This file owns the removal of a tree.

const (
	// maxOpen is how deep a removal goes with a descriptor for each level. A directory that lies deeper is moved up
	// to the top of the tree first, and is removed from there. To go down with one descriptor and come back by ".."
	// was rejected: if a directory is moved meanwhile, ".." leads somewhere else.
	maxOpen = 32
	// maxSteps bounds one removal, because a tree may grow as fast as it is removed. The next removal continues
	// with what is left.
	maxSteps = 1 << 24
	// batch is how many names are read before they are removed.
	batch = 1024
)

// errGrows is returned if something is left after very many steps: perhaps the tree still grows.
var errGrows = errors.New("it is larger than one removal may take, or grows as fast as it is removed")

// errFull is returned for the removal of a directory that is not empty.
var errFull = errors.New("it is a directory that is not empty")

// Remove removes a tree. One that does not exist counts as removed. What cannot be removed stays, with the
// directories above it, and all else goes; the error is the first one.
func Remove(path string) error { return RemoveWhile(path, func() bool { return true }) }

// RemoveWhile is Remove that ends, with ErrStopped, soon after goOn has returned false.
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
	top   int // the tree's own directory, open; -1: not yet
	moved int // directories that were moved up to it
	done  int // entries that were removed or moved
	steps int // that are left
	goOn  func() bool
	end   error // why it goes no further
}

// step counts one.
func (r *removal) step() error {
	if r.steps--; r.steps < 0 {
		r.end = errGrows
	} else if r.steps%pace == 0 && !r.goOn() {
		r.end = ErrStopped
	}
	return r.end
}

// remove removes one entry of an open directory, with all that is in it.
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

// empty removes what is in a directory. It reads the directory again as long as that removes anything: not every file
// system lists each entry while others are removed.
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

// unlink removes an entry that has nothing in it. If its flags or its directory's mode forbid that, it clears them;
// within: the directory is the tree's own.
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
		return fmt.Errorf("%.80q has something mounted on it, which is left alone; unmount it", name)
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

// raise moves a directory to the top of the tree, under a name that is free there.
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
		case tries == 0: // its flags or modes, or a file system that knows no such flag of the call
			tries, flags = 1, 0
			r.free(at, name, true)
			unclose(at, name) // to be moved it must be writable by its owner
		default:
			return fmt.Errorf("%.80q: %w", name, err)
		}
	}
}

// enter opens a directory of the tree, whatever its mode, unless something is mounted there.
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
		return -1, fmt.Errorf("%.80q has something mounted on it, which is left alone; unmount it", name)
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

// mountOf is the mount that something open is on, or its device where the kernel numbers no mounts.
func mountOf(fd int) uint64 {
	if id := hostpath.MountID(fd); id != 0 {
		return id
	}
	var stat unix.Stat_t
	_ = unix.Fstat(fd, &stat)
	return stat.Dev
}

// keepFlags are the flags of a file that keep even root from removing it.
const keepFlags = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND // the same bits as the call's own

// free clears them on a file or directory, and on the directory that it is in, which it makes writable for its owner.
// Only files and directories can have them, and nothing else is opened: a device would notice.
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

// lift clears the flags of what is open.
func lift(fd int) {
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil && flags&keepFlags != 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags&^keepFlags)
	}
}
