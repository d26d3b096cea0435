//go:build linux

package carapace

// This file adds a name for the task's user if its uid is missing in the container's user lists. Some programs fail if
// the lookup of their user fails. The lists are shown with one more line. They come from an image and may be hostile.
// They are therefore read inside the root, without following links, and only if all users may read them.

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

// maxListed bounds the size of a changed list. The list is in memory twice per container.
const maxListed = 256 << 10

// nameUser mounts lists with an added line for the user into the root. It runs before the other mounts at that place.
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
			return fmt.Errorf("add a name for user %s: %w", uid, err)
		}
		r.mounts = append([]shown{{tree, "/etc/" + name, false}}, r.mounts...)
	}
	return nil
}

// write makes a file next to the container's root, which no path of the container reaches. It returns the file as a
// detached mount.
func (r *root) write(name string, text []byte) (tree int, err error) {
	path := filepath.Join(r.order.Base, name)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return -1, err
	}
	if err := os.Chmod(path, 0o644); err != nil { // regardless of the umask
		return -1, err
	}
	if tree, err = cloneTree(path); err != nil {
		return -1, err
	}
	return tree, setAttributes(tree, systemDirs|unix.MOUNT_ATTR_RDONLY, 0)
}

// listOf reads one of a root's lists. ok is false if there is no list that may be shown.
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

// lists reports whether a list contains an id.
func lists(text []byte, id string) bool {
	for line := range bytes.Lines(text) {
		if fields := bytes.Split(line, []byte(":")); len(fields) > 3 && string(fields[2]) == id {
			return true
		}
	}
	return false
}

// validateUserName refuses an invalid name, and a name for a user that already has one.
func validateUserName(name, user string) error {
	if name == "" {
		return nil
	}
	uid, gid, _ := strings.Cut(user, ":")
	for _, id := range []string{uid, gid} {
		if _, err := strconv.ParseUint(id, 10, 32); err != nil {
			return &SpecError{"userName", fmt.Sprintf("requires a user of the form uid:gid, not %.80q", user)}
		}
	}
	if !madeOf(name, 32, "_-") {
		return &SpecError{"userName", fmt.Sprintf("%.80q is not a valid user name", name)}
	}
	return nil
}
