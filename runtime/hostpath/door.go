//go:build linux

// Package hostpath opens what a job names on a machine: directories of images, archives, sources of mounts, a
// workdir. A job's path is a Path, and only this package resolves it: once, as the task's user with its groups,
// through no link of /proc. What was opened then is what is checked and used, from Prepare to the task's own mounts
// (hold.go). So no job reaches through root what its user could not reach alone, and nothing can be exchanged
// between the check and the use. It must never return a path for others to resolve.
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

// Path is a path of the machine that a job names. It prints quoted, for people: no other package can open it.
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

// Visitor is the user for whom a path is opened, and what this machine lets jobs name.
type Visitor struct {
	As    Guest `json:"as"`
	Rules Rules `json:"rules"`
}

// Ticket holds the file or directory that was found at a path. It stays open in the process that asked, until that
// process closes the ticket or hands it on. Another process opens the path again, by the same rules, and is refused if
// the path has changed.
type Ticket struct {
	Visitor
	Path      Path   `json:"path"`
	Directory bool   `json:"directory,omitempty"`
	Device    uint64 `json:"device"`
	Inode     uint64 `json:"inode"`
	// ReadOnly: by the policy the user may read and not write.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Node is a device that the rules let jobs name, as the rules spell it: it is granted, and nothing is mounted.
	Node string `json:"node,omitempty"`
	// Held is the descriptor of the mount in a process that was handed it (Hold); 0: it opens the path.
	Held int `json:"held,omitempty"`

	place *os.File // what was found; nil: in another process
}

// errElsewhere: a path leads to something else than when the task was prepared.
var errElsewhere = errors.New("leads to something else than when the task was prepared; leave the path alone until " +
	"the task has started")

// Ask looks up what is at a path.
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

// askDevice checks that this user may read and write a device on the machine that jobs may name. The device is the
// one in the rules, not what the job's path leads to.
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

// Hides reports whether a path leads to, or below, what the agent hides. A task may enter what is above that, but is
// not shown it.
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

// File opens a plain file to be read. It never waits on a pipe or device that was put there.
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
		// The link of our own descriptor leads to what is open, wherever the path leads by now.
		fd, err = unix.Open(o.link(), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		return err
	})
	if err != nil {
		return nil, v.As.absent(path)
	}
	return os.NewFile(uintptr(fd), path.text), nil
}

// Link is a path to what a descriptor of this process refers to, for calls that take only paths.
func Link(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }

// opened is something that is open, and can no longer be exchanged.
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

// open resolves a path as the user, and checks what is there by the rules.
func (v Visitor) open(path Path) (opened, error) {
	if !strings.HasPrefix(path.text, "/") || strings.ContainsRune(path.text, 0) || len(path.text) >= unix.PathMax {
		return opened{}, fault.OfJob(fmt.Errorf("%.80v is not an absolute path", path))
	}
	o := opened{fd: -1}
	err := v.As.Do(func() (err error) {
		// The slash comes first: what is mounted on demand is mounted when it is entered.
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

// absent is the error both for what does not exist and for what the user cannot reach: different words would tell a
// user what is in a directory that it may not read.
func (g Guest) absent(path Path) error {
	return fmt.Errorf("%v %w, %s; make it on every machine, below directories that this user may pass", path, errAbsent, g)
}

// errAbsent: there is no file for this user, although there may be one for others.
var errAbsent = absence("is not there for the task's user")

type absence string

func (a absence) Error() string { return string(a) }

// Is makes a missing part of an image an fs.ErrNotExist.
func (a absence) Is(other error) bool { return other == fs.ErrNotExist }

// Look reports whether a path of the machine exists for the user, and whether it is a directory that the user can
// enter. Nothing is opened for the task: it finds the path by itself, on a host view or as a plain process.
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

// Writes reports whether a path of the machine is a directory in which the user may make files.
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

// look finds out what was opened.
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
