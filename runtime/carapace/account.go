//go:build linux

package carapace

// Who the task is and what it runs, read from the container's own files. Those come with an image, and may be hostile:
// they are read in the container's root, must be plain files, and no more than a limit of them is read.

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

// account is the user as which the task runs.
type account struct {
	uid, gid int
	groups   []uint32
	home     string
}

const (
	maxAccountBytes = 4 << 20
	maxGroups       = 65536 // the kernel's own limit
	maxID           = 1<<32 - 2
	defaultPath     = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

func validateUser(user string) error {
	parts := strings.Split(user, ":")
	for _, part := range parts {
		if len(parts) > 2 || !madeOf(strings.TrimLeft(part, "_"), 64, "_.@-") {
			return &SpecError{"user", fmt.Sprintf("%.80q is neither a name, a uid, nor one of them with :group", user)}
		}
		if number, err := strconv.ParseUint(part, 10, 64); err == nil && number > maxID {
			return &SpecError{"user", fmt.Sprintf("%.80q has an id beyond %d", user, uint64(maxID))}
		}
	}
	return nil
}

// lookUp finds a user in the container. A number needs no entry there; a name does.
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
		return who, fmt.Errorf("/etc/passwd of the container has no user %q; give a uid", name)
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
		// Whoever names a group means that one: an image's list must not add the machine's groups to it.
		if !hasGroup && slices.Contains(strings.Split(fields[3], ","), name) && len(who.groups) < maxGroups {
			who.groups = append(who.groups, uint32(gid))
		}
		return true
	})
	if err == nil && who.gid < 0 {
		err = fmt.Errorf("/etc/group of the container has no group %q; give a gid", group)
	}
	who.groups = append(who.groups, more...)
	return who, err
}

// eachEntry hands on the well-formed lines of an account file until told to stop. A missing file has no lines.
func eachEntry(path string, fields int, entry func([]string) (more bool)) error {
	// Not blocking: a pipe in the place of the file must not hold us up for ever.
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

// environment fills in what every program counts on.
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

// findProgram looks a command up along the task's own PATH.
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
			search = value // The last one counts, as it does for the program.
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
			denied = fmt.Errorf("%s has no permission to be executed", path)
		}
	}
	if denied != nil {
		return "", &StartError{CodeNotExecutable, "exec", denied.Error(), denied}
	}
	return "", notFound(name, fmt.Errorf("not in PATH %s", search))
}

func notFound(name string, err error) *StartError {
	code := CodeNotFound
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		code = CodeNotExecutable
	}
	return &StartError{code, "exec", fmt.Sprintf("%s: %v", name, err), err}
}
