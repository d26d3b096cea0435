package file

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// This file checks whether a user other than root or this process's user could change the file of a path.

// maxLinks bounds the number of links in a path, as in the kernel.
const maxLinks = 40

// Trusted returns a path without links. It refuses a path that another user could change: the file itself, a directory
// above it, or a link in the path. In a directory like /tmp, others may create files but cannot replace foreign ones.
// risk describes in the error what another user could do, such as "change what this node allows".
func Trusted(path, risk string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s: use an absolute path", path)
	}
	links := 0
	return trusted(filepath.Clean(path), risk, &links)
}

// closing returns the fix for a file that others can write. A read-only mount is no protection, because the same files
// may have another mount that is writable. A ConfigMap of Kubernetes looks the same as such a mount, so it is refused
// too.
func closing(path string) string {
	var mount unix.Statfs_t
	if unix.Statfs(path, &mount) != nil || mount.Flags&unix.ST_RDONLY == 0 {
		return "run chmod go-w on it"
	}
	return "this read-only mount does not prevent writes through another mount: mount the file alone " +
		"(in Kubernetes: subPath), or copy it into a directory of root"
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
		return "", fmt.Errorf("%s belongs to user %d, who could %s; run chown root on it", path, owner, risk)
	case !link && info.Mode().Perm()&0o022 != 0 && (!info.IsDir() || info.Mode()&os.ModeSticky == 0):
		return "", fmt.Errorf("other users can write to %s; %s", path, closing(path))
	case !link:
		return path, nil
	}
	if *links++; *links > maxLinks {
		return "", fmt.Errorf("%s has more than %d links", path, maxLinks)
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
