//go:build linux

package fork

// How a process becomes the command: init's child, or the first process itself where there is to be no init. As in
// init.go nothing but system calls is made. The order is: first what takes rights, then the giving up of rights, then
// what the task's own rights must be enough for.

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// liveAsCommand ends in the exec of the command, or in word of why not.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func liveAsCommand(n *nest) {
	askForTrace(n)
	if joinGroups(n) && limitSelf(n) && enterIDs(n) && restrictSelf(n) && changeUser(n) && raiseAmbient(n) &&
		limitLate(n) && takePlace(n) && waitForWord(n) {
		execute(n)
	}
	refuse(n)
}

// askForTrace has the exec looked at, and leads a new session.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func askForTrace(n *nest) {
	if n.traced {
		_, _, errno := syscall.RawSyscall6(unix.SYS_PTRACE, traceMe, 0, 0, 0, 0, 0)
		if errno != 0 && !n.noInit {
			leave(codeUntraced)
		}
		n.plan.untraced = uintptr(errno)
	}
	syscall.RawSyscall6(unix.SYS_SETSID, 0, 0, 0, 0, 0, 0)
}

// joinGroups joins the cgroups of v1 (of v2's this process was born in), and makes them the root of what the task sees:
// in a container that is there they are that already.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func joinGroups(n *nest) bool {
	n.path[0] = '0'
	for i := uintptr(0); i < n.joinsN; i++ {
		_, _, errno := syscall.RawSyscall6(unix.SYS_WRITE, n.joins[i], uintptr(unsafe.Pointer(&n.path)), 1, 0, 0, 0)
		if errno != 0 {
			return failed(n, StepJoin, uint16(i), errno)
		}
	}
	if n.ownCgroups {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP, 0, 0, 0, 0, 0); errno != 0 {
			return failed(n, StepCgroups, 0, errno)
		}
	}
	if n.cgroups > 0 {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_SETNS, n.cgroups, unix.CLONE_NEWCGROUP, 0, 0, 0, 0); errno != 0 {
			return failed(n, StepCgroups, 0, errno)
		}
	}
	return true
}

//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func limitSelf(n *nest) bool {
	for i := uintptr(0); i < n.plan.limitsN; i++ {
		limit := &n.plan.limits[i]
		_, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, limit.number, uintptr(unsafe.Pointer(&limit.soft)),
			0, 0, 0)
		if errno != 0 {
			return failed(n, StepLimits, uint16(limit.index), errno)
		}
	}
	return true
}

// limitLate sets the limit of the user's processes. Set before the user is changed, it would be judged by all that this
// user runs on the machine, and the exec refused.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func limitLate(n *nest) bool {
	if n.plan.lateN == 0 {
		return true
	}
	limit := &n.plan.late
	_, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, limit.number, uintptr(unsafe.Pointer(&limit.soft)),
		0, 0, 0)
	if errno != 0 {
		return failed(n, StepLimits, uint16(limit.index), errno)
	}
	return true
}

// enterIDs goes into the user namespace, for good. All capabilities that it has from here on are over that and nothing
// else. It comes after what takes things from the machine, and before what is taken from it: whoever enters has them
// all.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func enterIDs(n *nest) bool {
	if n.ids == 0 {
		return true
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SETNS, n.ids, unix.CLONE_NEWUSER, 0, 0, 0, 0); errno != 0 {
		return failed(n, StepIDs, 0, errno)
	}
	return true
}

// restrictSelf takes from this process, for good, what it may ever gain through an exec, and what it may call.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func restrictSelf(n *nest) bool {
	for number := uintptr(0); number < 64; number++ {
		if n.plan.bound&(1<<number) != 0 {
			continue
		}
		_, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, number, 0, 0, 0, 0)
		if errno == syscall.EINVAL {
			break // The kernel knows no capability of that number, nor of any higher one.
		}
		if errno != 0 {
			return failed(n, StepBound, uint16(number), errno)
		}
	}
	if !n.plan.gains {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
			return failed(n, StepPrivileges, 0, errno)
		}
	}
	if n.plan.filter.length == 0 {
		return true
	}
	filter := uintptr(unsafe.Pointer(&n.plan.filter))
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, filter, 0, 0, 0); errno != 0 {
		return failed(n, StepFilter, 0, errno)
	}
	return true
}

// changeUser becomes the task's user. What that user was given beyond its own rights is handed through the change and
// the exec.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func changeUser(n *nest) bool {
	if !n.plan.changesUser {
		return true
	}
	if n.plan.ambient != 0 {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0, 0, 0, 0); errno != 0 {
			return failed(n, StepAmbient, 0, errno)
		}
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SETGROUPS, n.plan.groupsN, n.plan.groups, 0, 0, 0, 0); errno != 0 {
		return failed(n, StepGroups, 0, errno)
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SETRESGID, n.plan.gid, n.plan.gid, n.plan.gid, 0, 0, 0); errno != 0 {
		return failed(n, StepGroup, 0, errno)
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SETRESUID, n.plan.uid, n.plan.uid, n.plan.uid, 0, 0, 0); errno != 0 {
		return failed(n, StepUser, 0, errno)
	}
	return true
}

//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func raiseAmbient(n *nest) bool {
	if n.plan.ambient == 0 {
		return true
	}
	sets := uintptr(unsafe.Pointer(&n.caps.sets))
	n.caps.version = unix.LINUX_CAPABILITY_VERSION_3
	for i := range n.caps.sets {
		set := &n.caps.sets[i]
		added := uint32(n.plan.ambient >> (32 * uint(i)))
		set.effective, set.permitted, set.inheritable = added, added, added
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&n.caps)), sets, 0, 0, 0, 0)
	if errno != 0 {
		return failed(n, StepAmbient, 0, errno)
	}
	for number := uintptr(0); number < 64; number++ {
		if n.plan.ambient&(1<<number) == 0 {
			continue
		}
		_, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, number, 0, 0, 0)
		if errno != 0 {
			return failed(n, StepAmbient, uint16(number), errno)
		}
	}
	return true
}

// takePlace goes where the command is to begin.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func takePlace(n *nest) bool {
	if _, _, errno := syscall.RawSyscall6(unix.SYS_CHDIR, n.plan.workdir, 0, 0, 0, 0, 0); errno != 0 {
		return failed(n, StepWorkdir, 0, errno)
	}
	return takeStdio(n) && takeTerminal(n)
}

// takeTerminal makes stdin the terminal of this process's session.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func takeTerminal(n *nest) bool {
	if !n.plan.terminal {
		return true
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0, 0, 0, 0); errno != 0 {
		return failed(n, StepTerminal, 0, errno)
	}
	return true
}

// takeStdio puts the three streams in their places, and has everything else closed by the exec.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func takeStdio(n *nest) bool {
	for place := uintptr(0); place < 3; place++ {
		number, second := uintptr(unix.SYS_DUP3), place
		if n.stdio[place] == place {
			number, second = unix.SYS_FCNTL, unix.F_SETFD
		}
		if _, _, errno := syscall.RawSyscall6(number, n.stdio[place], second, 0, 0, 0, 0); errno != 0 {
			return failed(n, StepStdio, uint16(place), errno)
		}
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, 3, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return failed(n, StepStdio, 3, errno)
	}
	return true
}

// waitForWord is for a command without an init. The change of user has cleared its wish to die with its starter, so it
// is asked for again; init.go says why it asks the starter after that.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func waitForWord(n *nest) bool {
	if !n.noInit {
		return true
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	if errno != 0 {
		return failed(n, StepDeath, 0, errno)
	}
	n.record = record{kind: recordReady, value: uint64(n.plan.untraced)}
	tell(n)
	receive(n, uintptr(unsafe.Pointer(&n.record)), 1)
	return true
}

// execute opens the command's ears, and becomes it.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func execute(n *nest) {
	n.signals = 0
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&n.signals)), 0, 8, 0, 0)
	_, _, errno := syscall.RawSyscall6(unix.SYS_EXECVE, n.plan.path, n.plan.argv, n.plan.env, 0, 0, 0)
	failed(n, StepExec, 0, errno)
}
