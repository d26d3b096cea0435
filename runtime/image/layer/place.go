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

// This file opens and empties directories below a root. The kernel resolves each path with this root as the root
// directory. Absolute links and links with .. therefore stay inside, even if they change concurrently.

// maxLinks is the maximum number of links in one lookup, as in the kernel.
const maxLinks = 40

// openIn opens a path below a root. O_NOFOLLOW applies to the last part of the path.
func openIn(root int, path string, flags uint64) (int, error) {
	if path == "" {
		path = "."
	}
	for {
		fd, err := unix.Openat2(root, path, &unix.OpenHow{
			Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != unix.EAGAIN && err != unix.EINTR { // The kernel retries on a concurrent rename.
			return fd, err
		}
	}
}

// places opens directories below a root and keeps the last one open, because an archive is usually sorted by folder.
type places struct {
	root int
	base string // the root's own path, as returned by whereFrom

	cached int // -1: none
	stale  bool
	key    string
	at     string // its real path
}

func (p *places) forget() {
	if p.cached >= 0 {
		unix.Close(p.cached)
	}
	p.cached, p.stale = -1, false
}

// join returns the real path of a name in the directory that parent returned last.
func (p *places) join(name string) string { return strings.TrimPrefix(p.at+"/"+name, "/") }

// whereFrom returns the real path of a directory. It fails for paths above the kernel's limit. Otherwise links could
// create directories too deep to remove.
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

// parent opens a directory and makes missing parts of it. The unpacker owns the descriptor.
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

// imply makes directories without an entry in the archive. A link without a target here is not replaced. Its target is
// probably in a lower layer, and is also made as an implied directory.
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

// removeAt removes a name in a directory with all its content, and follows no link.
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

// emptyFolder removes the content of an open directory, and closes it.
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
		if _, err := folder.Seek(0, io.SeekStart); err != nil { // Removals during the read may hide entries, so read again.
			return err
		}
	}
}

// same reports whether two names refer to one file.
func same(aDir int, a string, bDir int, b string) bool {
	var first, second unix.Stat_t
	return unix.Fstatat(aDir, a, &first, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		unix.Fstatat(bDir, b, &second, unix.AT_SYMLINK_NOFOLLOW) == nil && first.Dev == second.Dev && first.Ino == second.Ino
}

// setTime sets the time of a name in a directory, or of the open file itself if the name is empty.
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
