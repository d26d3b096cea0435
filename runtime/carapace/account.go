//go:build linux

package carapace

// This file finds the task's user and program in the container's files. These files come from an image and may be
// hostile. They are therefore read inside the container's root, must be plain files, and are read only up to a size
// limit.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// account is the user that runs the task.
type account struct {
	uid, gid int
	groups   []uint32
	home     string
}

const (
	maxAccountBytes = 4 << 20
	maxGroups       = 65536 // the limit of the kernel
	maxID           = 1<<32 - 2
	defaultPath     = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

func validateUser(user string) error {
	parts := strings.Split(user, ":")
	for _, part := range parts {
		if len(parts) > 2 || !madeOf(strings.TrimLeft(part, "_"), 64, "_.@-") {
			return &SpecError{"user", fmt.Sprintf("%.80q is not a user; use a name, a uid, or either with :GROUP", user)}
		}
		if number, err := strconv.ParseUint(part, 10, 64); err == nil && number > maxID {
			return &SpecError{"user", fmt.Sprintf("%.80q has an id above the maximum of %d", user, uint64(maxID))}
		}
	}
	return nil
}

// lookUp finds a user in the container. A numeric user needs no entry there, but a name does.
func lookUp(user string, more []uint32) (account, error) {
	name, group, hasGroup := strings.Cut(user, ":")
	who := account{uid: -1, home: "/"}
	if number, err := strconv.Atoi(name); err == nil {
		who.uid = number
	}
	err := eachEntry("/etc/passwd", 7, func(fields []string) bool {
		uid, errUID := strconv.Atoi(fields[2])
		gid, errGID := strconv.Atoi(fields[3])
		if errUID != nil || errGID != nil || uid < 0 || gid < 0 || fields[0] != name && uid != who.uid {
			return true
		}
		name, who.uid, who.gid = fields[0], uid, gid
		if filepath.IsAbs(fields[5]) {
			who.home = fields[5]
		}
		return false
	})
	if err != nil {
		return who, err
	}
	if who.uid < 0 {
		return who, fmt.Errorf("/etc/passwd of the container has no user %q; use a uid", name)
	}
	if hasGroup {
		who.gid = -1
		if number, err := strconv.Atoi(group); err == nil {
			who.gid = number
		}
	}
	err = eachEntry("/etc/group", 4, func(fields []string) bool {
		gid, err := strconv.Atoi(fields[2])
		if err != nil || gid < 0 {
			return true
		}
		if hasGroup && who.gid < 0 && fields[0] == group {
			who.gid = gid
		}
		// If the user specifies a group, only that group counts. An image must not add the host's groups to it.
		if !hasGroup && slices.Contains(strings.Split(fields[3], ","), name) && len(who.groups) < maxGroups {
			who.groups = append(who.groups, uint32(gid))
		}
		return true
	})
	if err == nil && who.gid < 0 {
		err = fmt.Errorf("/etc/group of the container has no group %q; use a gid", group)
	}
	who.groups = append(who.groups, more...)
	return who, err
}

// eachEntry calls entry with each well-formed line of an account file until entry returns false. A missing file has no
// lines.
func eachEntry(path string, fields int, entry func([]string) (more bool)) error {
	// O_NONBLOCK: if the file is a pipe, opening it must not block forever.
	from, err := openFile(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(from), &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	lines := bufio.NewScanner(io.LimitReader(from, maxAccountBytes))
	lines.Buffer(nil, maxAccountBytes)
	for lines.Scan() {
		if parts := strings.Split(lines.Text(), ":"); len(parts) == fields && !entry(parts) {
			return nil
		}
	}
	return lines.Err()
}

// environment adds the standard variables that programs expect.
func environment(given []string, home string) []string {
	env := slices.Clone(given)
	for _, standard := range []string{"PATH=" + defaultPath, "HOME=" + home} {
		name := standard[:strings.IndexByte(standard, '=')+1]
		if !slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name) }) {
			env = append(env, standard)
		}
	}
	return env
}

// findProgram searches a command in the task's own PATH.
func findProgram(name, workdir string, env []string) (string, *StartError) {
	if strings.ContainsRune(name, '/') {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(workdir, path)
		}
		if _, err := os.Stat(path); err != nil {
			return "", notFound(name, err)
		}
		return path, nil
	}
	search := defaultPath
	for _, entry := range env {
		if value, found := strings.CutPrefix(entry, "PATH="); found {
			search = value // The last one counts, as for the program.
		}
	}
	var denied error
	for folder := range strings.SplitSeq(search, ":") {
		path := filepath.Join(workdir, folder, name)
		if filepath.IsAbs(folder) {
			path = filepath.Join(folder, name)
		}
		stat, err := os.Stat(path)
		switch {
		case err != nil || stat.IsDir():
		case stat.Mode()&0o111 != 0:
			return path, nil
		default:
			denied = fmt.Errorf("%s is not executable", path)
		}
	}
	if denied != nil {
		return "", &StartError{CodeNotExecutable, "exec", denied.Error(), denied}
	}
	return "", notFound(name, fmt.Errorf("not found in PATH %s", search))
}

func notFound(name string, err error) *StartError {
	code := CodeNotFound
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		code = CodeNotExecutable
	}
	return &StartError{code, "exec", fmt.Sprintf("%s: %v", name, err), err}
}
