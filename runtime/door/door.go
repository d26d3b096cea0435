//go:build linux

// Package door opens what a job names on a machine: directories of images, archives, sources of mounts, a workdir. A
// job's path is a Path, and here alone one is resolved: once, as the task's user with the groups that it has, through
// no link of /proc, and what was opened is what is looked at and used, from Prepare to the task's own mounts (hold.go).
// So no job reaches by root's hand what its user could not reach alone, and nothing can be exchanged between a look and
// its use. It must never answer a path for others to resolve.
package door

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

// Path is a path of the machine that a job names. What it prints is quoted, for people: nobody but this package can
// open it.
type Path struct{ text string }

// Named takes a path from a job.
func Named(text string) Path { return Path{text} }

func (p Path) String() string { return strconv.Quote(p.text) }

// MarshalText lets a task's records keep the path for a later agent.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// UnmarshalText reads it back.
func (p *Path) UnmarshalText(text []byte) error {
	p.text = string(text)
	return nil
}

// Visitor is the user that comes to the door, and what this machine lets through it.
type Visitor struct {
	As    Guest `json:"as"`
	Rules Rules `json:"rules"`
}

// Ticket is what was found behind a path. What was found stays open in the process that asked, until it closes the
// ticket or gives it away. Another process goes through the door again, by the same rules, and is refused if there is
// something else behind it by then.
type Ticket struct {
	Visitor
	Path      Path   `json:"path"`
	Directory bool   `json:"directory,omitempty"`
	Device    uint64 `json:"device"`
	Inode     uint64 `json:"inode"`
	// ReadOnly is the policy's word: the user may look, and not write.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Node is a device that the rules let jobs name, by the rules' own word: it is granted, and nothing is mounted.
	Node string `json:"node,omitempty"`
	// Held is the descriptor by which a process has it that was handed the mount (Hold); 0: it goes through the door.
	Held int `json:"held,omitempty"`

	place *os.File // what was found; nil: in another process
}

// errElsewhere is a path that leads to something else than it did when the task was prepared.
var errElsewhere = errors.New("leads to something else than when the task was prepared; leave the path alone until " +
	"the task has started")

// Ask looks what is behind a path.
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

// askDevice looks whether a device that jobs may name is one that this user reads and writes on the machine too. Its
// rules name it, and not what the job's path leads to.
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
		return Ticket{}, fault.OfMachine(fmt.Errorf("%v is no longer a device", path))
	}
	return Ticket{Visitor: v, Path: path, Device: o.stat.Dev, Inode: o.stat.Ino, Node: node}, nil
}

// AskFolder is Ask for what must be a directory that the user can list and enter.
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

// Hides reports whether a path leads to, or below, what the agent hides. What is above that may be gone into, and
// is not shown.
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

// File opens a plain file to be read. It never waits at a pipe or a device that somebody put there.
func (v Visitor) File(path Path) (*os.File, error) {
	o, err := v.open(path)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if o.directory() {
		return nil, fmt.Errorf("%v is not a file", path)
	}
	fd := -1
	err = v.As.Do(func() (err error) {
		// The link of our own descriptor leads to what is open, wherever its path leads by now.
		fd, err = unix.Open(o.link(), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		return err
	})
	if err != nil {
		return nil, v.As.absent(path)
	}
	return os.NewFile(uintptr(fd), path.text), nil
}

// Link is a path that leads to what a descriptor of this process is of, for the calls that know only paths.
func Link(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }

// opened is something behind a door, which cannot be exchanged any more.
type opened struct {
	fd    int
	stat  unix.Stat_t
	mount mount
	path  string // where it is, for the rules to look at; never opened
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

// open resolves a path as the user, and has the rules look at what is there.
func (v Visitor) open(path Path) (opened, error) {
	if !strings.HasPrefix(path.text, "/") || strings.ContainsRune(path.text, 0) || len(path.text) >= unix.PathMax {
		return opened{}, fault.OfJob(fmt.Errorf("%.80v is not an absolute path", path))
	}
	o := opened{fd: -1}
	err := v.As.Do(func() (err error) {
		// With the slash first: what is mounted on demand is mounted when somebody goes in.
		if o.fd, err = resolve(path.text + "/"); err == unix.ENOTDIR {
			o.fd, err = resolve(path.text)
		}
		return err
	})
	if err == unix.ENOSYS {
		return opened{}, fault.OfMachine(errors.New("openat2 is missing: Linux 5.12 or newer is needed"))
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

// absent is the answer for what is not there, and for what the user cannot reach: different words would tell a user
// that may not look what is behind a closed door.
func (g Guest) absent(path Path) error {
	return fmt.Errorf("%v %w, %s; make it on every machine, with a way that this user may pass", path, errAbsent, g)
}

// errAbsent: there is no file for this user, whatever there is for others.
var errAbsent = absence("is not there for the task's user")

type absence string

func (a absence) Error() string { return string(a) }

// Is lets a missing part of an image be known as one.
func (a absence) Is(other error) bool { return other == fs.ErrNotExist }

// Look reports whether a path of the machine's is there for its user, and whether it is a directory that he can
// enter. Nothing is to be opened for him there: he meets it by himself, on a host view or as a plain process.
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

// look finds out what is open.
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
