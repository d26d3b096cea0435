package file

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
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

// closing says how others are kept from writing to something. A read-only mount does not keep them: it may be one of
// several mounts of the same files, and whoever may write by another of them changes what is read here. A ConfigMap of
// Kubernetes is one like that, and looks the same, so it is not taken either.
func closing(path string) string {
	var mount unix.Statfs_t
	if unix.Statfs(path, &mount) != nil || mount.Flags&unix.ST_RDONLY == 0 {
		return "chmod go-w it"
	}
	return "that it is mounted read-only here keeps nobody from writing to it by another mount. Mount the file alone " +
		"(in Kubernetes: subPath), or copy it below a directory that is root's"
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
		return "", fmt.Errorf("%s can be written to by others; %s", path, closing(path))
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
