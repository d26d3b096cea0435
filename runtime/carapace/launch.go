//go:build linux

package carapace

// What the command is to be: its user, its program, with which environment and rights, as the container sees it. It
// is found out by the starter, in the container's finished root.

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// launch holds the settings of the command's process.
type launch struct {
	order      *order
	stdio      [3]uintptr
	own        map[uint64]bool // the mounts in which anything may be made
	unenforced []string

	who     account
	path    string
	env     []string
	kept    capabilitySet // what there may be at most
	ambient capabilitySet // what a user other than root is given
	filter  []unix.SockFilter
}

// prepare finds out which user runs what, as the container sees it.
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
	if spec.IDs != nil && (l.order.Rootless || max(who.uid, who.gid) >= IDsLen) {
		return fail("user", fmt.Errorf("%s has a number beyond %d, or its starter is not root", spec.User, IDsLen-1))
	}
	inside := insideOf(l.order, l.own, who)
	if err := l.makeWorkdir(inside); err != nil {
		return fail("workdir", fmt.Errorf("%s is missing and cannot be made: %w", spec.Workdir, err))
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
	var failure *StartError
	if err := inside.As.Do(func() error { // What he cannot reach is not there for him, under whatever name.
		l.path, failure = findProgram(spec.Command[0], spec.Workdir, l.env)
		return nil
	}); err != nil {
		return fail("user", err)
	}
	return failure
}

// makeWorkdir makes it where it is missing: in the task's layers for its user, and on the machine's directories as
// its user.
func (l *launch) makeWorkdir(inside hostpath.Inside) error {
	place, made, err := inside.Make(l.order.Spec.Workdir, true)
	if err == unix.EACCES {
		return nil // It is there, and to go into it fails by that name.
	}
	if err != nil {
		return err
	}
	defer unix.Close(place)
	if !made {
		return nil
	}
	return unix.Fchownat(place, "", int(inside.As.UID), int(inside.As.GID), unix.AT_EMPTY_PATH)
}

// ownPipes gives the pipes we were handed to the task's user: some programs open /dev/stdout again, as that user.
func (l *launch) ownPipes() error {
	owner := int(l.order.Spec.IDs.outside(l.who.uid))
	for _, stream := range l.stdio {
		fd := int(stream)
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO || int(stat.Uid) == owner {
			continue
		}
		if err := unix.Fchown(fd, owner, -1); err != nil && !l.order.Rootless {
			return err
		}
	}
	return nil
}
