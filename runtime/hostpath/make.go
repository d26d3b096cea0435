//go:build linux

package hostpath

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// This file owns the directories and files that are made inside a container before its task runs: mount points, and a
// workdir.

// Inside is a container's root, as a thread sees it that has it as its root; no task runs in it yet.
type Inside struct {
	As Guest
	// Own are the mounts that were made for this container, by the kernel's numbers: anything may be made in them.
	// In all others, which are the machine's directories, only what the user may make is made.
	Own map[uint64]bool
	// Root owns what is made in them: the container's root, by its number on the machine.
	Root uint32
}

// Make opens a place of the container to mount on or to enter, and makes what is missing on the way to it. made: the
// last part was made, and not as the user.
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

// step opens one part of a path below an open directory, and makes it if it is missing.
func (in Inside) step(at int, name string, directory bool) (fd int, made bool, err error) {
	fd, err = in.enter(at, name)
	if err == unix.EACCES && in.owns(at) { // a closed directory of the image, in which the machine keeps nothing
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
	// Another task of the user may have put a link there meanwhile, in the user's own directory.
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
