//go:build linux

package carapace

// A name for a task's user in the container, where that is a number which the container's own lists of users lack:
// programs look it up, and some end where there is none. The lists are shown with one line more. They come with an
// image and may be hostile: they are read within the root, by no link, and only where any user may read them.

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxListed bounds a list that is written again: it lies in memory, twice for each container.
const maxListed = 256 << 10

// nameUser has the lists of what is or will be the root shown with a line for the user, before what else is to be
// mounted there.
func (r *root) nameUser(top string) error {
	if r.spec.UserName == "" {
		return nil
	}
	uid, gid, _ := strings.Cut(r.spec.User, ":")
	home := "/"
	if r.spec.Scratch != "" {
		home = scratchTarget
	}
	for name, line := range map[string]string{
		"passwd": fmt.Sprintf("%s:x:%s:%s::%s:/bin/sh\n", r.spec.UserName, uid, gid, home),
		"group":  fmt.Sprintf("%s:x:%s:\n", r.spec.UserName, gid),
	} {
		id := map[string]string{"passwd": uid, "group": gid}[name]
		text, ok := listOf(top, name)
		if !ok || lists(text, id) {
			continue
		}
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		tree, err := r.write(name, append(text, line...))
		if err != nil {
			return fmt.Errorf("name of user %s: %w", uid, err)
		}
		r.mounts = append([]shown{{tree, "/etc/" + name, false}}, r.mounts...)
	}
	return nil
}

// write makes a file beside the container's root, where nothing of the container leads, and answers it as a detached
// mount.
func (r *root) write(name string, text []byte) (tree int, err error) {
	path := filepath.Join(r.order.Base, name)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return -1, err
	}
	if err := os.Chmod(path, 0o644); err != nil { // whatever our umask
		return -1, err
	}
	if tree, err = cloneTree(path); err != nil {
		return -1, err
	}
	return tree, setAttributes(tree, systemDirs|unix.MOUNT_ATTR_RDONLY, 0)
}

// listOf reads one of a root's lists; it may have none that can be shown.
func listOf(top, name string) (text []byte, ok bool) {
	root, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, "etc/"+name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, false
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o004 == 0 || info.Size() > maxListed {
		return nil, false
	}
	text, err = io.ReadAll(io.LimitReader(file, maxListed+1))
	return text, err == nil && len(text) <= maxListed
}

// lists reports whether a list has a number.
func lists(text []byte, id string) bool {
	for line := range bytes.Lines(text) {
		if fields := bytes.Split(line, []byte(":")); len(fields) > 3 && string(fields[2]) == id {
			return true
		}
	}
	return false
}

// validateUserName refuses a name that would be more than one, and one for a user that has a name already.
func validateUserName(name, user string) error {
	if name == "" {
		return nil
	}
	uid, gid, _ := strings.Cut(user, ":")
	for _, id := range []string{uid, gid} {
		if _, err := strconv.ParseUint(id, 10, 32); err != nil {
			return &SpecError{"userName", fmt.Sprintf("is for a user given as uid:gid, and user is %.80q", user)}
		}
	}
	if !madeOf(name, 32, "_-") {
		return &SpecError{"userName", fmt.Sprintf("%.80q is no name of a user", name)}
	}
	return nil
}
