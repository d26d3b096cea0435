//go:build linux

package hostpath

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// This file makes directories and files inside a container before its task runs: mount points, and a workdir.

// Inside describes a container's root for a thread whose root it is. No task runs in it yet.
type Inside struct {
	As Guest
	// Own lists the mounts that were made for this container, by the kernel's mount id. Any path may be created in
	// them. In all other mounts, which are host directories, only paths that the user may create are created.
	Own map[uint64]bool
	// Root is the owner of new paths in them: the container's root, by its host uid.
	Root uint32
}

// Make opens a path of the container to mount on or to enter, and creates missing parts of it. made reports that the
// last part was created, and not as the user.
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

// step opens one part of a path below an open directory, and creates it if it is missing.
func (in Inside) step(at int, name string, directory bool) (fd int, made bool, err error) {
	fd, err = in.enter(at, name)
	if err == unix.EACCES && in.owns(at) { // a closed directory of the image, which contains no host files
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

// MountID returns the id of the mount of an open file; 0: unknown.
func MountID(fd int) uint64 {
	var stat unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stat); err != nil ||
		stat.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return stat.Mnt_id
}
