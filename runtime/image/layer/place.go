//go:build linux

package layer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file owns how a place below a root is found and emptied. A path is looked up by the kernel with the root as the
// whole world: links that are absolute or go up end within it, whoever changes them meanwhile.

// maxLinks is how many links one lookup follows, as in the kernel.
const maxLinks = 40

// openIn opens a path below a root. O_NOFOLLOW is for its last part.
func openIn(root int, path string, flags uint64) (int, error) {
	if path == "" {
		path = "."
	}
	for {
		fd, err := unix.Openat2(root, path, &unix.OpenHow{
			Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != unix.EAGAIN && err != unix.EINTR { // The kernel saw a rename beside us, and is not sure.
			return fd, err
		}
	}
}

// places finds directories below a root, and keeps the last one open: an archive goes folder by folder.
type places struct {
	root int
	base string // the root's own path, as whereFrom sees it

	cached int // -1: none
	stale  bool
	key    string
	at     string // where it really is
}

func (p *places) forget() {
	if p.cached >= 0 {
		unix.Close(p.cached)
	}
	p.cached, p.stale = -1, false
}

// join is the real path of a name in the directory that parent answered last.
func (p *places) join(name string) string { return strings.TrimPrefix(p.at+"/"+name, "/") }

// whereFrom is the real path of a directory. It fails beyond the length of a path: without that, links could pile up
// directories so deep that nothing can ever remove them.
func (p *places) whereFrom(fd int) (string, error) {
	if err := unix.Fchdir(fd); err != nil {
		return "", err
	}
	where, err := unix.Getwd()
	if err != nil {
		return "", fmt.Errorf("the directory is too deep: %w", err)
	}
	return where, nil
}

// parent opens a directory, and makes what is missing of it. The unpacker owns the descriptor.
func (u *unpacker) parent(parts []string) (int, error) {
	key := strings.Join(parts, "/")
	if u.cached >= 0 && !u.stale && u.key == key {
		return u.cached, nil
	}
	u.forget()
	fd, err := openIn(u.root, key, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		if err = u.imply(parts, 0); err == nil {
			fd, err = openIn(u.root, key, unix.O_PATH|unix.O_DIRECTORY)
		}
	}
	if err != nil {
		return -1, fmt.Errorf("directory %.200q: %w", key, err)
	}
	where, err := u.whereFrom(fd)
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	u.cached, u.key, u.at = fd, key, strings.TrimPrefix(strings.TrimPrefix(where, u.base), "/")
	return fd, nil
}

// imply makes directories that the archive has no entry for. A link that points to nothing here is not replaced: what
// it points to is most likely in a layer below, and is made as implied, too.
func (u *unpacker) imply(parts []string, links int) error {
	for i := range parts {
		path := strings.Join(parts[:i+1], "/")
		fd, err := openIn(u.root, path, unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			unix.Close(fd)
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := u.implyOne(strings.Join(parts[:i], "/"), parts[i], links); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) implyOne(parent, name string, links int) error {
	fd, err := openIn(u.root, parent, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	where, err := u.whereFrom(fd)
	if err != nil {
		return err
	}
	where = strings.TrimPrefix(strings.TrimPrefix(where, u.base), "/")
	err = unix.Mkdirat(fd, name, 0o755)
	if err == nil && u.owners {
		err = unix.Fchownat(fd, name, 0, 0, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		u.implied[strings.TrimPrefix(where+"/"+name, "/")] = true
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	buffer := make([]byte, maxNameBytes+1)
	n, err := unix.Readlinkat(fd, name, buffer)
	if err != nil || links >= maxLinks {
		return unix.ELOOP
	}
	target := string(buffer[:n])
	if !path.IsAbs(target) {
		target = "/" + where + "/" + target
	}
	parts, err := clean(path.Clean(target))
	if err != nil {
		return err
	}
	return u.imply(parts, links+1)
}

// removeAt removes what has a name in a directory, with all that is in it, and follows nothing.
func removeAt(parent int, name string) error {
	err := unix.Unlinkat(parent, name, 0)
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := emptyFolder(fd); err != nil {
		return err
	}
	return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
}

// emptyFolder removes all that is in an open directory, and closes it.
func emptyFolder(fd int) error {
	folder := os.NewFile(uintptr(fd), "")
	defer folder.Close()
	for {
		names, err := folder.Readdirnames(1024)
		for _, name := range names {
			if err := removeAt(fd, name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := folder.Seek(0, io.SeekStart); err != nil { // What is removed while it is read may hide the rest.
			return err
		}
	}
}

// same reports whether two names are one file.
func same(aDir int, a string, bDir int, b string) bool {
	var first, second unix.Stat_t
	return unix.Fstatat(aDir, a, &first, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		unix.Fstatat(bDir, b, &second, unix.AT_SYMLINK_NOFOLLOW) == nil && first.Dev == second.Dev && first.Ino == second.Ino
}

// setTime sets the time of a name in a directory, or without a name of what is open.
func setTime(fd int, name string, at time.Time) error {
	if at.Before(time.Unix(0, 0)) {
		at = time.Unix(0, 0)
	}
	stamp, err := unix.TimeToTimespec(at)
	if err != nil {
		return err
	}
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags = unix.AT_EMPTY_PATH
	}
	return unix.UtimesNanoAt(fd, name, []unix.Timespec{stamp, stamp}, flags)
}
