package file

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// This file owns whether somebody else than root, or the user of this process, could change what a path names.

// maxLinks bounds how many links a path may lead through, as the kernel does.
const maxLinks = 40

// Trusted returns a path without links, and refuses one that another user could change: the file itself, a directory
// above it, or a link on the way there. In a directory like /tmp others may write, but not replace what is not theirs.
// risk says in the error what another user could do, such as "change what this node allows".
func Trusted(path, risk string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s: give the whole path, from / on", path)
	}
	links := 0
	return trusted(filepath.Clean(path), risk, &links)
}

func trusted(path, risk string, links *int) (string, error) {
	if path != "/" {
		above, err := trusted(filepath.Dir(path), risk, links)
		if err != nil {
			return "", err
		}
		path = filepath.Join(above, filepath.Base(path))
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	owner, link := info.Sys().(*syscall.Stat_t).Uid, info.Mode()&os.ModeSymlink != 0
	switch {
	case owner != 0 && int(owner) != os.Geteuid():
		return "", fmt.Errorf("%s belongs to user %d, who could %s; chown it to root", path, owner, risk)
	case !link && info.Mode().Perm()&0o022 != 0 && (!info.IsDir() || info.Mode()&os.ModeSticky == 0):
		return "", fmt.Errorf("%s can be written to by others; chmod go-w it", path)
	case !link:
		return path, nil
	}
	if *links++; *links > maxLinks {
		return "", fmt.Errorf("%s leads through more than %d links", path, maxLinks)
	}
	to, err := os.Readlink(path)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	return trusted(filepath.Clean(to), risk, links)
}
