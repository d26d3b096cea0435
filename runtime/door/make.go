//go:build linux

package door

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// This file owns what is made inside of a container before its task runs: places for mounts, and a workdir.

// Inside is a container's root, seen by a thread that has it as its own, and that no task runs in yet.
type Inside struct {
	As Guest
	// Own are the mounts that were made for this container, by the kernel's numbers: in them anything may be made. In all
	// others, which are the machine's directories, the user makes what he may.
	Own map[uint64]bool
	// Root is whose is what is made in them: the container's root, as the machine numbers it.
	Root uint32
}

// Make opens a place of the container to be mounted upon or gone into, and makes what is missing of the way to it.
// made: the last part of it was made, and not by the user.
func (in Inside) Make(place string, directory bool) (fd int, made bool, err error) {
	if fd, err = in.enter(unix.AT_FDCWD, place); err == nil {
		return fd, false, nil
	}
	if fd, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return -1, false, err
	}
	names := strings.Split(strings.Trim(path.Clean("/"+place), "/"), "/")
	for i, name := range names {
		next, byUs, err := in.step(fd, name, directory || i+1 < len(names))
		unix.Close(fd)
		if err != nil {
			return -1, false, err
		}
		fd, made = next, byUs
	}
	return fd, made, nil
}

// enter opens a path as the user.
func (in Inside) enter(at int, name string) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	err = in.As.Do(func() (err error) {
		fd, err = unix.Openat2(at, name, &how)
		return err
	})
	return fd, err
}

// step opens one part of a way below an open directory, and makes it if it is missing.
func (in Inside) step(at int, name string, directory bool) (fd int, made bool, err error) {
	fd, err = in.enter(at, name)
	if err == unix.EACCES && in.owns(at) { // a closed door of the image, behind which the machine keeps nothing
		fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	}
	if err != unix.ENOENT {
		return fd, false, err
	}
	create := func() error {
		if directory {
			return unix.Mkdirat(at, name, 0o755)
		}
		return unix.Mknodat(at, name, unix.S_IFREG|0o644, 0)
	}
	if made = in.owns(at); made {
		if err = create(); err == nil && in.Root != 0 {
			err = unix.Fchownat(at, name, int(in.Root), int(in.Root), unix.AT_SYMLINK_NOFOLLOW)
		}
	} else {
		err = in.As.Do(create)
	}
	if err != nil {
		return -1, false, err
	}
	// A user's other task may have put a link there at once, in a directory of his.
	fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	return fd, made, err
}

func (in Inside) owns(fd int) bool { return in.Own[MountID(fd)] }

// MountID is the number of the mount that something open is on; 0: it is not known.
func MountID(fd int) uint64 {
	var stat unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stat); err != nil ||
		stat.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return stat.Mnt_id
}
