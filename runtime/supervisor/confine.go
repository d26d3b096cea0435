package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/calls"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// This file owns what a task of plain processes may still do to the machine: the rules that make it so. The task is
// the same user as its supervisor and its agent where they are not root, so that no file's mode keeps it from
// theirs.

// Confinement lists the files and processes that a task of plain processes may read, write and signal: all paths that
// are not hidden, the paths listed here, and its own descendants.
type Confinement struct {
	Landlock int `json:"landlock"` // the version to make use of, no newer than that of the kernel
	// Hide are places of the machine whose contents the task must not reach. What is not there is passed over.
	Hide []string `json:"hide,omitempty"`
	// Own is the task's even though it lies in a hidden place.
	Own string `json:"own,omitempty"`
	// Write are places where it may do anything; one with something hidden in it, or hidden itself, is passed over.
	Write []string `json:"write,omitempty"`
	// Named are places where it may do anything because its job names them.
	Named []hostpath.Ticket `json:"named,omitempty"`
	// Use are files, devices and folders of such that may be written and controlled, but neither made nor removed.
	Use []string `json:"use,omitempty"`
	// Bound takes from a task that is root what would lead around all this: to load modules, to make device nodes,
	// to read other processes' memory, and whatever else a root of a container has not got either.
	Bound bool `json:"bound,omitempty"`
}

// rootKeeps are the capabilities that are left to it.
var rootKeeps = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE,
}

// confineThread puts it on the calling thread, which must be locked, and on all that it forks. What the thread may do
// now it may until it executes something: to become another user takes a capability.
func (c *Confinement) confineThread(forksInto bool) error {
	if c == nil {
		return nil
	}
	rules, err := c.rules()
	if err != nil {
		return err
	}
	defer rules.close()
	for capability := 0; c.Bound; capability++ {
		if slices.Contains(rootKeeps, capability) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0)
		if err == unix.EINVAL {
			break // The kernel knows none of that number, nor of any higher one.
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	if err := rules.restrictThread(); err != nil {
		return err
	}
	return filterThread(forksInto)
}

// filterThread puts the filter of system calls on the calling thread, where there is one for this architecture. It
// must not gain rights by executing a program. A process that forks into a group needs clone3 for that.
func filterThread(forksInto bool) error {
	var with []string
	if forksInto {
		with = append(with, calls.Clone3)
	}
	filter, err := calls.Program(with)
	if err != nil {
		return nil // process.Driver.Lacks says so
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// devices is a folder of which nothing is readable but what is listed: to read a device is more than to look at it.
const devices = "/dev"

// most bounds what is looked at in one folder. What comes after it is hidden too.
const most = 1 << 16

// rules makes them. A rule can only allow, and holds for all that is below; what is hidden is therefore left out by
// allowing everything beside the way to it. Names are not hidden: whoever could not list the way to a hidden place
// could not list the machine's root.
func (c *Confinement) rules() (*ruleset, error) {
	r, err := newRuleset(c.Landlock)
	if err != nil {
		return nil, err
	}
	m := confining{ruleset: r, hidden: resolved(c.Hide)}
	m.allowAt("/", mayList)
	m.around("/", append([]string{devices}, m.hidden...))
	for _, path := range c.Use {
		m.allowAt(path, mayUse)
	}
	for _, path := range c.Write {
		m.allowWrite(path)
	}
	for _, ticket := range c.Named {
		m.allowNamed(ticket)
	}
	if c.Own != "" {
		m.allowAt(c.Own, mayWrite)
	}
	if m.failed != nil {
		r.close()
		return nil, fmt.Errorf("Landlock: %w", m.failed)
	}
	return r, nil
}

// confining is a set of rules in the making.
type confining struct {
	*ruleset
	hidden []string
	failed error // the first
}

// resolved are the places that are there, without links.
func resolved(paths []string) []string {
	var real []string
	for _, path := range paths {
		if at, err := filepath.EvalSymlinks(path); err == nil {
			real = append(real, at)
		}
	}
	return real
}

// around allows reading what is in a folder but for the hidden.
func (m *confining) around(path string, hidden []string) {
	inside := false
	for _, place := range hidden {
		if carapace.Within(path, place) {
			return
		}
		inside = inside || carapace.Within(place, path)
	}
	if !inside {
		m.allowAt(path, mayRead)
		return
	}
	folder, err := os.Open(path)
	if err != nil {
		return // What we cannot list, the task does not get to read.
	}
	entries, err := folder.ReadDir(most)
	folder.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		m.fail(path, err)
	}
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 { // a link gives no right to what it leads to
			m.around(filepath.Join(path, entry.Name()), hidden)
		}
	}
}

// allowAt adds rights to a place, if it is there and ours to see.
func (m *confining) allowAt(path string, rights uint64) {
	m.withPlace(path, func(fd int) error { return m.allow(fd, rights) })
}

// allowWrite looks where the place really is only when it is open: a link could be turned meanwhile.
func (m *confining) allowWrite(path string) {
	m.withPlace(path, func(fd int) error {
		real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil {
			return err
		}
		for _, place := range m.hidden {
			if carapace.Within(place, real) || carapace.Within(real, place) {
				return nil
			}
		}
		return m.allow(fd, mayWrite)
	})
}

// allowNamed goes through the door again: what was named must not have become another place.
func (m *confining) allowNamed(ticket hostpath.Ticket) {
	fd, err := ticket.Open()
	if err == nil {
		rights := uint64(mayWrite)
		if ticket.ReadOnly {
			rights = mayRead | mayList
		}
		err = m.allow(fd, rights)
		unix.Close(fd)
	}
	if err != nil && m.failed == nil {
		m.failed = err
	}
}

func (m *confining) withPlace(path string, do func(fd int) error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return // A right that is not given can do no harm.
	}
	if err := do(fd); err != nil {
		m.fail(path, err)
	}
	unix.Close(fd)
}

func (m *confining) fail(path string, err error) {
	if m.failed == nil {
		m.failed = fmt.Errorf("%s: %w", path, err)
	}
}
