//go:build linux

// Package hostpath opens the paths that a job names on a node: image directories, archives, sources of mounts and a
// workdir. A path of a job is a Path, and only this package resolves it. It is resolved once, with the rights of the
// task's user and groups, and through no link of /proc. The open file is then checked and used, from Prepare to the
// task's own mounts (hold.go). A job therefore reaches no file through root that its user could not reach, and no file
// can be replaced between check and use. The package must never return a path that another package resolves.
package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
)

// Path is a path on the node that a job names. It prints quoted, for users. No other package can open it.
type Path struct{ text string }

// Named returns the Path for a job's text.
func Named(text string) Path { return Path{text} }

func (p Path) String() string { return strconv.Quote(p.text) }

// MarshalText encodes the path for a task's record, which a later agent reads.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// UnmarshalText decodes the path.
func (p *Path) UnmarshalText(text []byte) error {
	p.text = string(text)
	return nil
}

// Visitor is the user for whom a path is opened, together with the node's rules.
type Visitor struct {
	As    Guest `json:"as"`
	Rules Rules `json:"rules"`
}

// Ticket holds the file or directory that was found at a path. It stays open in the process that called Ask, until that
// process closes the ticket or passes it on. Another process opens the path again, by the same rules, and is refused if
// the path has changed.
type Ticket struct {
	Visitor
	Path      Path   `json:"path"`
	Directory bool   `json:"directory,omitempty"`
	Device    uint64 `json:"device"`
	Inode     uint64 `json:"inode"`
	// ReadOnly reports that the policy forbids writing.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Node is a device that the rules permit, in the spelling of the rules. It is granted, and nothing is mounted.
	Node string `json:"node,omitempty"`
	// Held is the descriptor of the mount in a process that received it from Hold; 0: the process opens the path.
	Held int `json:"held,omitempty"`

	place *os.File // the open file; nil: in another process
}

// errElsewhere reports a path that leads to another file than when the task was prepared.
var errElsewhere = errors.New("leads to another file than when the task was prepared; do not change the path before " +
	"the task has started")

// Ask opens a path and returns its ticket.
func (v Visitor) Ask(path Path) (Ticket, error) {
	if i := slices.Index(v.Rules.Devices, filepath.Clean(path.text)); i >= 0 {
		return v.askDevice(path, v.Rules.Devices[i])
	}
	o, err := v.open(path)
	if err != nil {
		return Ticket{}, err
	}
	return o.ticket(v, path), nil
}

// askDevice checks that the user may read and write a device that jobs may name. It uses the device in the rules, and
// not the target of the job's path.
func (v Visitor) askDevice(path Path, node string) (Ticket, error) {
	o := opened{fd: -1}
	err := v.As.Do(func() (err error) {
		if o.fd, err = resolve(node); err != nil {
			return err
		}
		return unix.Faccessat2(o.fd, "", unix.R_OK|unix.W_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	})
	if o.fd >= 0 {
		defer o.close()
	}
	if err != nil {
		return Ticket{}, v.As.absent(path)
	}
	if err := o.look(); err != nil {
		return Ticket{}, fault.OfMachine(fmt.Errorf("%v: %w", path, err))
	}
	if kind := o.stat.Mode & unix.S_IFMT; kind != unix.S_IFCHR && kind != unix.S_IFBLK || o.path != node {
		return Ticket{}, fault.OfMachine(fmt.Errorf("%v is no longer a device node", path))
	}
	return Ticket{Visitor: v, Path: path, Device: o.stat.Dev, Inode: o.stat.Ino, Node: node}, nil
}

// AskFolder is like Ask for a directory that the user must be able to list and enter.
func (v Visitor) AskFolder(path Path) (Ticket, error) {
	o, err := v.open(path)
	if err != nil {
		return Ticket{}, err
	}
	if !o.directory() {
		o.close()
		return Ticket{}, fmt.Errorf("%v is not a directory", path)
	}
	err = v.As.Do(func() error {
		return unix.Faccessat2(o.fd, "", unix.R_OK|unix.X_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	})
	if err != nil {
		o.close()
		return Ticket{}, v.As.absent(path)
	}
	return o.ticket(v, path), nil
}

// Hides reports whether a path leads to the agent's hidden directories or below them. A task may enter a parent of a
// hidden directory, but does not see its content.
func (v Visitor) Hides(path Path) bool {
	o := opened{fd: -1}
	err := v.As.Do(func() (err error) {
		o.fd, err = resolve(path.text)
		return err
	})
	if err != nil {
		return true
	}
	defer o.close()
	if err := o.look(); err != nil {
		return true
	}
	return v.Rules.hidesAbove(o)
}

// File opens a regular file for reading. It never blocks on a pipe or device at the path.
func (v Visitor) File(path Path) (*os.File, error) {
	o, err := v.open(path)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if o.directory() {
		return nil, fmt.Errorf("%v is not a regular file", path)
	}
	fd := -1
	err = v.As.Do(func() (err error) {
		// The link of the descriptor leads to the open file, even if the path has changed.
		fd, err = unix.Open(o.link(), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		return err
	})
	if err != nil {
		return nil, v.As.absent(path)
	}
	return os.NewFile(uintptr(fd), path.text), nil
}

// Link returns a path to the file of a descriptor of this process, for calls that accept only paths.
func Link(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }

// opened is an open file, which can no longer be replaced.
type opened struct {
	fd    int
	stat  unix.Stat_t
	mount mount
	path  string // its path for the rules; never opened
}

func (o opened) close()          { unix.Close(o.fd) }
func (o opened) link() string    { return Link(o.fd) }
func (o opened) directory() bool { return o.stat.Mode&unix.S_IFMT == unix.S_IFDIR }

func (o opened) ticket(v Visitor, path Path) Ticket {
	return Ticket{
		Visitor: v, Path: path, Directory: o.directory(), Device: o.stat.Dev, Inode: o.stat.Ino,
		ReadOnly: v.Rules.readOnly(o.path), place: os.NewFile(uintptr(o.fd), o.path),
	}
}

// open resolves a path as the user, and checks the result by the rules.
func (v Visitor) open(path Path) (opened, error) {
	if !strings.HasPrefix(path.text, "/") || strings.ContainsRune(path.text, 0) || len(path.text) >= unix.PathMax {
		return opened{}, fault.OfJob(fmt.Errorf("%.80v is not an absolute path", path))
	}
	o := opened{fd: -1}
	err := v.As.Do(func() (err error) {
		// The path with a slash comes first, because entering a directory triggers its automatic mount.
		if o.fd, err = resolve(path.text + "/"); err == unix.ENOTDIR {
			o.fd, err = resolve(path.text)
		}
		return err
	})
	if err == unix.ENOSYS {
		return opened{}, fault.OfMachine(errors.New("openat2 is missing: Linux 5.12 or newer is required"))
	}
	if err != nil {
		return opened{}, v.As.absent(path)
	}
	if err := o.look(); err != nil {
		o.close()
		return opened{}, fault.OfMachine(fmt.Errorf("%v: %w", path, err))
	}
	if err := v.Rules.check(o, path); err != nil {
		o.close()
		return opened{}, err
	}
	return o, nil
}

func resolve(path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// absent returns the same error for a missing file and for one that the user cannot reach. Different errors would
// reveal the content of unreadable directories.
func (g Guest) absent(path Path) error {
	return fmt.Errorf("%v %w, %s; create it on every node, in directories that this user may enter", path, errAbsent, g)
}

// errAbsent reports that there is no file for this user. There may be one for other users.
var errAbsent = absence("does not exist for the task's user")

type absence string

func (a absence) Error() string { return string(a) }

// Is makes a missing part of an image match fs.ErrNotExist.
func (a absence) Is(other error) bool { return other == fs.ErrNotExist }

// Look reports whether a path on the node exists for the user, and whether it is a directory that the user can enter.
// It opens nothing for the task, which uses the path itself, on a host view or as a plain process.
func (g Guest) Look(path Path) (folder bool, err error) {
	err = g.Do(func() error {
		fd, err := resolve(path.text)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var stat unix.Stat_t
		err = unix.Fstat(fd, &stat)
		folder = stat.Mode&unix.S_IFMT == unix.S_IFDIR &&
			unix.Faccessat2(fd, "", unix.X_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS) == nil
		return err
	})
	if err != nil {
		return false, g.absent(path)
	}
	return folder, nil
}

// Writes reports whether a path on the node is a directory in which the user may create files.
func (g Guest) Writes(path Path) bool {
	return g.Do(func() error {
		fd, err := resolve(path.text)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Faccessat2(fd, "", unix.W_OK|unix.X_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	}) == nil
}

// look reads the properties of the open file.
func (o *opened) look() error {
	if err := unix.Fstat(o.fd, &o.stat); err != nil {
		return err
	}
	path, err := os.Readlink(o.link())
	if err != nil {
		return err
	}
	o.path = path
	o.mount, err = mountOf(o.fd)
	return err
}
