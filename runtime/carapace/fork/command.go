//go:build linux

package fork

// This file turns a process into the command: init's child, or the first process if there is no init. As in init.go,
// the code only makes system calls. The order is: steps that need rights, then giving up the rights, then steps with
// the task's own rights.

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// liveAsCommand ends with the exec of the command, or with a report of the failure.
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

// askForTrace makes the exec visible to the tracer, and starts a new session.
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

// joinGroups joins the cgroups of v1, and makes all cgroups the root of the task's view. The process was created in its
// cgroup of v2. In an existing container, the view already has this root.
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

// limitLate sets the limit of the user's processes. If it were set before the change of user, all processes of that
// user on the host would count, and the exec might fail.
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

// enterIDs enters the user namespace permanently. From then on, all capabilities apply only inside it. It comes after
// the steps that need the host's rights. It comes before the capabilities are dropped, because entering grants all
// capabilities.
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

// restrictSelf permanently limits the rights that an exec can give and the permitted system calls.
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
			break // The kernel has no capability of this number or above.
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

// changeUser becomes the task's user. It keeps the capabilities that were added for this user across the change and the
// exec.
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

// takePlace enters the working directory.
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

// takeTerminal makes stdin the controlling terminal of this process's session.
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

// takeStdio sets up the three streams and marks all other descriptors to close at the exec.
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

// waitForWord waits for the starter if there is no init. The change of user cleared the signal at the starter's death,
// so waitForWord requests it again. It contacts the starter after that, for the reason given in init.go.
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

// execute unblocks the signals and executes the command.
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
