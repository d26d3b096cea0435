//go:build linux

package carapace

// This file prepares the command: its user, program, environment and rights, as seen from inside the container. The
// starter does this in the container's finished root.

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
	own        map[uint64]bool // the mounts in which every user may create files
	unenforced []string

	who     account
	path    string
	env     []string
	kept    capabilitySet // the upper bound of the capabilities
	ambient capabilitySet // the capabilities of a user other than root
	filter  []unix.SockFilter
}

// prepare looks up the user and the program inside the container.
func (l *launch) prepare() *StartError {
	spec := &l.order.Spec
	who, err := lookUp(spec.User, spec.Groups)
	if err != nil {
		return fail("user", err)
	}
	if l.order.Rootless {
		if who.uid != 0 || who.gid != 0 {
			l.unenforced = append(l.unenforced, "user: without root, the task runs as the user who started it")
		}
		l.unenforced = append(l.unenforced, "groups: without root, the task keeps the groups of the user who started it")
		who.uid, who.gid, who.groups = 0, 0, nil
	}
	l.who = who
	if err := l.ownPipes(); err != nil {
		return fail("stdio", fault.OfMachine(err))
	}
	if spec.IDs != nil && (l.order.Rootless || max(who.uid, who.gid) >= IDsLen) {
		return fail("user", fmt.Errorf("the id of %s is above %d, or the starter is not root", spec.User, IDsLen-1))
	}
	inside := insideOf(l.order, l.own, who)
	if err := l.makeWorkdir(inside); err != nil {
		return fail("workdir", fmt.Errorf("%s cannot be made: %w", spec.Workdir, err))
	}
	l.env = environment(spec.Env, who.home)
	l.kept, l.ambient = capabilities(spec.CapAdd, spec.CapDrop)
	if who.uid == 0 {
		l.ambient = 0 // Root has them without this.
	}
	filter, lost := seccompProgram(spec)
	if l.filter = filter; lost != "" {
		l.unenforced = append(l.unenforced, lost)
	}
	var failure *StartError
	if err := inside.As.Do(func() error { // A program that the user cannot reach counts as missing, under any name.
		l.path, failure = findProgram(spec.Command[0], spec.Workdir, l.env)
		return nil
	}); err != nil {
		return fail("user", err)
	}
	return failure
}

// makeWorkdir makes the workdir if it is missing: in the task's layers for its user, and in host directories as its
// user.
func (l *launch) makeWorkdir(inside hostpath.Inside) error {
	place, made, err := inside.Make(l.order.Spec.Workdir, true)
	if err == unix.EACCES {
		return nil // The workdir exists, and entering it fails later with its name.
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

// ownPipes changes the owner of the given pipes to the task's user, because some programs open /dev/stdout again as
// that user.
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
