//go:build linux

// What the command is to be: who runs it, what program, with which environment and rights, as the container sees it. It is found out
// by the starter, in the container's finished root.
package carapace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
)

// launch is what the command is to be born with.
type launch struct {
	order      *order
	stdio      [3]uintptr
	unenforced []string

	who     account
	path    string
	env     []string
	kept    capabilitySet // what there may be at most
	ambient capabilitySet // what a user other than root is given
	filter  []unix.SockFilter
}

// prepare finds out who runs what, as the container sees it.
func (l *launch) prepare() *StartError {
	spec := &l.order.Spec
	who, err := lookUp(spec.User, spec.Groups)
	if err != nil {
		return fail("user", err)
	}
	if l.order.Rootless {
		if who.uid != 0 || who.gid != 0 {
			l.unenforced = append(l.unenforced, "user: without root the task has the one user that started it")
		}
		l.unenforced = append(l.unenforced, "groups: without root the groups of who started it stay")
		who.uid, who.gid, who.groups = 0, 0, nil
	}
	l.who = who
	if err := l.ownPipes(); err != nil {
		return fail("stdio", fault.OfMachine(err))
	}
	if _, err := os.Stat(spec.Workdir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(spec.Workdir, 0o755); err != nil {
			return fail("workdir", fmt.Errorf("%s is missing and cannot be made: %w", spec.Workdir, err))
		}
		if err := os.Chown(spec.Workdir, who.uid, who.gid); err != nil {
			return fail("workdir", err)
		}
	}
	l.env = environment(spec.Env, who.home)
	l.kept, l.ambient = capabilities(spec.CapAdd, spec.CapDrop)
	if who.uid == 0 {
		l.ambient = 0 // Root gets them by being root.
	}
	filter, lost := seccompProgram(spec)
	if l.filter = filter; lost != "" {
		l.unenforced = append(l.unenforced, lost)
	}
	path, failure := findProgram(spec.Command[0], spec.Workdir, l.env)
	if failure != nil {
		return failure
	}
	l.path = path
	return nil
}

// ownPipes gives the pipes we were handed to the task's user: /dev/stdout is opened anew by some programs, as that user.
func (l *launch) ownPipes() error {
	for _, stream := range l.stdio {
		fd := int(stream)
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO || int(stat.Uid) == l.who.uid {
			continue
		}
		if err := unix.Fchown(fd, l.who.uid, -1); err != nil && !l.order.Rootless {
			return err
		}
	}
	return nil
}
