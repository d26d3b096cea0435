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

// This file restricts the host access of a task of plain processes. Without root, the task has the same user as its
// supervisor and its agent. File modes alone would then not protect their files.

// Confinement lists the files and processes that a task of plain processes may read, write and signal: all paths that
// are not hidden, the paths listed here, and its own descendants.
type Confinement struct {
	Landlock int `json:"landlock"` // the version to use, at most that of the kernel
	// Hide lists host paths whose content the task must not reach. Missing paths are ignored.
	Hide []string `json:"hide,omitempty"`
	// Own is a path that belongs to the task, even if it is inside a hidden path.
	Own string `json:"own,omitempty"`
	// Write lists paths with full access. A path that is hidden or contains a hidden path is ignored.
	Write []string `json:"write,omitempty"`
	// Named lists paths with full access that the job named.
	Named []hostpath.Ticket `json:"named,omitempty"`
	// Use lists files, devices and folders of devices. They may be written and controlled, but not created or
	// removed.
	Use []string `json:"use,omitempty"`
	// Bound restricts a task that is root like root in a container. It cannot load modules, make device nodes or
	// read the memory of other processes, which would bypass the confinement.
	Bound bool `json:"bound,omitempty"`
}

// rootKeeps lists the capabilities that such a task keeps.
var rootKeeps = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE,
}

// confineThread confines the calling thread, which must be locked, and all processes that it forks. The thread keeps
// its current rights until it executes a program, because a change of user needs a capability.
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
			break // The kernel has no capability of this number or above.
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

// filterThread sets the filter of system calls on the calling thread, if this architecture has one. The thread must not
// gain rights by executing a program. A process that forks into a cgroup needs clone3.
func filterThread(forksInto bool) error {
	var with []string
	if forksInto {
		with = append(with, calls.Clone3)
	}
	filter, err := calls.Program(with)
	if err != nil {
		return nil // process.Driver.Lacks reports this
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// devices is a folder in which only listed files are readable, because reading a device may have effects.
const devices = "/dev"

// most bounds the number of checked entries in one folder. All further entries are hidden.
const most = 1 << 16

// rules returns the set of rules. A rule can only permit access, and includes everything below. To hide a path, the
// rules permit all its siblings and the siblings of its parents. The names of hidden paths stay visible, because
// otherwise the host's root could not be listed.
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
		return nil, fmt.Errorf("Landlock rules: %w", m.failed)
	}
	return r, nil
}

// confining is a set of rules under construction.
type confining struct {
	*ruleset
	hidden []string
	failed error // the first error
}

// resolved returns the existing paths with links resolved.
func resolved(paths []string) []string {
	var real []string
	for _, path := range paths {
		if at, err := filepath.EvalSymlinks(path); err == nil {
			real = append(real, at)
		}
	}
	return real
}

// around permits reading a folder except its hidden parts.
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
		return // If the folder cannot be listed, the task may not read it.
	}
	entries, err := folder.ReadDir(most)
	folder.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		m.fail(path, err)
	}
	for _, entry := range entries {
		if entry.Type()&os.ModeSymlink == 0 { // a link gives no right to its target
			m.around(filepath.Join(path, entry.Name()), hidden)
		}
	}
}

// allowAt adds rights to a path, if it exists and is accessible.
func (m *confining) allowAt(path string, rights uint64) {
	m.withPlace(path, func(fd int) error { return m.allow(fd, rights) })
}

// allowWrite checks the real path only after it opened the file, because a link could change meanwhile.
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

// allowNamed opens the ticket again, which verifies that the path still leads to the same file.
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
		return // A missing right is safe.
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
