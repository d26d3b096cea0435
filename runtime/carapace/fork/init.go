//go:build linux

package fork

// This file is the container's init, the first process of its pid namespace (clone.go lists what is forbidden here). It
// mounts /proc, which belongs to the pid namespace of its maker. It waits until its starter has built the root, and
// releases the host's root. Then it launches the command, forwards signals and reaps processes. It has every
// capability, so it shares no memory, descriptor or file with the task.
//
// init dies with its starter's thread, because it asks the kernel to be killed then. It reports to its starter after
// that request, and the starter sends the command only after that report. Therefore init never outlives its starter.

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// stopSignals would stop the command, and a stopped member of a gang is useless. They are not forwarded.
	stopSignals = 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)
	lastSignal  = 64

	procAttributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC

	// codeUntraced is the exit code of a process that may not be traced, before it is the command.
	codeUntraced  = 199
	traceMe       = 0 // PTRACE_TRACEME
	statusStopped = 0x7f
)

// liveAsInit is the main function of init, after closeFiles. It calls one function per step and makes no system call
// itself, because the stack is small and each call uses some of it.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func liveAsInit(n *nest) {
	if !bindToStarter(n) || !n.joined && (!handProc(n) || !moveIn(n)) || !hearPlan(n) {
		refuse(n)
	}
	if n.noInit {
		landPlan(n)
		liveAsCommand(n)
	}
	launchCommand(n)
	n.record = record{kind: recordStarted, value: uint64(n.plan.untraced)}
	tell(n)
	closeAllBut(n)
	lookAfterCommand(n)
}

// failed records a failure for refuse.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func failed(n *nest, step Step, index uint16, errno syscall.Errno) bool {
	n.record = record{kind: recordFailed, step: step, index: index, value: uint64(errno)}
	return false
}

// tell sends the record. If the starter is gone, the send fails, and init is killed anyway.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func tell(n *nest) {
	syscall.RawSyscall6(unix.SYS_SENDTO, n.socket, uintptr(unsafe.Pointer(&n.record)), unsafe.Sizeof(n.record),
		unix.MSG_NOSIGNAL, 0, 0)
}

// refuse reports the failure and ends this process, which is init or its child.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func refuse(n *nest) {
	tell(n)
	leave(CodeFailed)
}

//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func leave(code uintptr) {
	for {
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, code, 0, 0, 0, 0, 0)
	}
}

// forgetHandlers resets every signal to its default action.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func forgetHandlers(n *nest) {
	for number := uintptr(1); number <= lastSignal; number++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, number, uintptr(unsafe.Pointer(&n.action)), 0, 8, 0, 0)
	}
}

// bindToStarter requests to be killed when the starter's thread ends, and hides init from the task.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func bindToStarter(n *nest) bool {
	_, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	if errno != 0 {
		return failed(n, StepDeath, 0, errno)
	}
	if n.hidden {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0); errno != 0 {
			return failed(n, StepHide, 0, errno)
		}
	}
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&n.names.own)), 0, 0, 0, 0)
	// In a separate session, a Ctrl-C at the terminal reaches only the starter, which forwards it to the task once.
	syscall.RawSyscall6(unix.SYS_SETSID, 0, 0, 0, 0, 0, 0)
	return true
}

// handProc makes a detached mount of /proc and sends it to the starter.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func handProc(n *nest) bool {
	context, _, errno := syscall.RawSyscall6(unix.SYS_FSOPEN, uintptr(unsafe.Pointer(&n.names.proc)),
		unix.FSOPEN_CLOEXEC, 0, 0, 0, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall6(unix.SYS_FSCONFIG, context, unix.FSCONFIG_CMD_CREATE, 0, 0, 0, 0)
	}
	if errno == 0 {
		n.proc, _, errno = syscall.RawSyscall6(unix.SYS_FSMOUNT, context, unix.FSMOUNT_CLOEXEC, procAttributes, 0, 0, 0)
	}
	if errno != 0 {
		return failed(n, StepProc, 0, errno)
	}
	syscall.RawSyscall6(unix.SYS_CLOSE, context, 0, 0, 0, 0, 0)
	n.record = record{kind: recordProc}
	n.message.rights.fd = int32(n.proc)
	syscall.RawSyscall6(unix.SYS_SENDMSG, n.socket, uintptr(unsafe.Pointer(&n.message)), unix.MSG_NOSIGNAL, 0, 0, 0)
	return true
}

// receive fills a buffer from the starter. If the starter is gone, it ends this process.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func receive(n *nest, into, length uintptr) {
	for length > 0 {
		got, _, errno := syscall.RawSyscall6(unix.SYS_READ, n.socket, into, length, 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 || got == 0 {
			leave(CodeFailed)
		}
		into, length = into+got, length-got
	}
}

// moveIn waits until the starter has pivoted the namespace's root, which also moves init. Then it detaches the host's
// root, which only its working directory still refers to, and enters the container's root.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func moveIn(n *nest) bool {
	receive(n, uintptr(unsafe.Pointer(&n.record)), 1)
	here := uintptr(unsafe.Pointer(&n.names.here))
	if _, _, errno := syscall.RawSyscall6(unix.SYS_UMOUNT2, here, unix.MNT_DETACH, 0, 0, 0, 0); errno != 0 {
		return failed(n, StepLetGo, 0, errno)
	}
	return enterRoot(n)
}

// enterRoot changes the root from the namespace's to the container's.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func enterRoot(n *nest) bool {
	_, _, errno := syscall.RawSyscall6(unix.SYS_CHROOT, uintptr(unsafe.Pointer(&n.names.root)), 0, 0, 0, 0, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall6(unix.SYS_CHDIR, uintptr(unsafe.Pointer(&n.names.top)), 0, 0, 0, 0, 0)
	}
	if errno != 0 {
		return failed(n, StepEnter, 0, errno)
	}
	return true
}

// hearPlan waits for the plan of the command, which is also the permission to run it.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func hearPlan(n *nest) bool {
	receive(n, uintptr(unsafe.Pointer(&n.plan)), unsafe.Sizeof(n.plan))
	receive(n, uintptr(unsafe.Pointer(&n.data)), n.plan.length)
	return true
}

// launchCommand forks the command and waits until its exec. It checks that the command does not execute the same binary
// as init. An image can name that binary by a link into /proc, and a root task could then write to the host's binary.
// The command is stopped at its exec until this check has passed.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func launchCommand(n *nest) {
	for {
		if !forkCommand(n) {
			refuse(n)
		}
		if !n.traced {
			return
		}
		awaitExec(n)
		if n.status&0xff == statusStopped {
			break
		}
		// The kernel kills a process at its exec if it has no memory for the arguments.
		if signal := uintptr(n.status & 0x7f); signal != 0 {
			leave(CodeSignal + signal)
		}
		if n.status != codeUntraced<<8 || n.plan.untraced != 0 { // It failed and has reported the reason.
			leave(CodeFailed)
		}
		n.traced, n.plan.untraced = false, uintptr(syscall.EPERM)
	}
	if !checkBinary(n) {
		refuse(n)
	}
	letRun(n)
}

// forkCommand makes the process that becomes the command.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func forkCommand(n *nest) bool {
	var errno syscall.Errno
	n.pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&n.cloneCommand)),
		unsafe.Sizeof(n.cloneCommand), 0, 0, 0, 0)
	if errno != 0 {
		return failed(n, StepFork, 0, errno)
	}
	if n.pid == 0 {
		landPlan(n)
		liveAsCommand(n)
	}
	return true
}

//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func letRun(n *nest) {
	syscall.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, n.pid, 0, 0, 0, 0)
}

// awaitExec waits until the command is stopped at its exec, or has ended. A signal before the exec also stops it, and
// is delivered.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func awaitExec(n *nest) {
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, n.pid, uintptr(unsafe.Pointer(&n.status)), 0, 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if signal := n.status >> 8; errno != 0 || n.status&0xff != statusStopped || signal == uint32(unix.SIGTRAP) {
			return
		}
		syscall.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_CONT, n.pid, 0, uintptr(n.status>>8), 0, 0)
	}
}

// checkBinary refuses a command whose binary is in the mount from which this binary was executed. All mounts of the
// container are new, so none of them is that mount.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func checkBinary(n *nest) bool {
	end := len(n.path) - 1 // The name is written from its end: pid, "/exe", NUL.
	for i := 3; i >= 0; i-- {
		end--
		n.path[end] = n.names.exe[i]
	}
	for pid := n.pid; pid > 0; pid /= 10 {
		end--
		n.path[end] = '0' + byte(pid%10)
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_STATX, n.proc, uintptr(unsafe.Pointer(&n.path[end])), 0,
		unix.STATX_MNT_ID, uintptr(unsafe.Pointer(&n.stat)), 0)
	if errno == 0 && n.stat.Mask&unix.STATX_MNT_ID != 0 && n.stat.Mnt_id != n.exeMount {
		return true
	}
	if errno == syscall.ENOENT || errno == syscall.ESRCH { // A process that was killed meanwhile has no binary.
		return true
	}
	// A denied check is safe here, because a user other than root could not write to the binary.
	if errno == syscall.EACCES && n.plan.uid != 0 {
		n.plan.untraced = uintptr(errno)
		return true
	}
	syscall.RawSyscall6(unix.SYS_KILL, n.pid, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	return failed(n, StepBinary, 0, errno)
}

// closeAllBut closes every descriptor except the socket.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func closeAllBut(n *nest) {
	syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, 0, n.socket-1, 0, 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, n.socket+1, 1<<32-1, 0, 0, 0, 0)
}

// lookAfterCommand forwards signals and reaps processes until the command has ended. The remaining processes then die
// with init. Signals stay blocked and are read from the queue. The kernel queues only blocked signals for a first
// process and drops all others.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func lookAfterCommand(n *nest) {
	n.signals &^= stopSignals
	for {
		number, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&n.signals)), 0, 0, 8, 0, 0)
		if errno != 0 {
			continue
		}
		if number != uintptr(unix.SIGCHLD) {
			syscall.RawSyscall6(unix.SYS_KILL, n.pid, number, 0, 0, 0, 0)
			continue
		}
		for reapOne(n, unix.WNOHANG) {
		}
	}
}

// reapOne waits for a process of the container and reports whether there may be another one. If the command has ended,
// it ends init.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func reapOne(n *nest, how uintptr) bool {
	got, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&n.status)), how, 0, 0, 0)
	switch {
	case errno == syscall.EINTR:
	case errno != 0: // No child is left, so the status of the command is lost and counts as a kill.
		n.status = uint32(unix.SIGKILL)
		endInitLife(n)
	case got == 0:
		return false
	case n.status&0xff == statusStopped:
		letGo(got, n.status>>8)
	case got == n.pid:
		endInitLife(n)
	}
	return true
}

// letGo continues a process that asked its parent, this process, to trace it, and that stopped at a signal. It delivers
// the signal, except the one that the process's exec causes.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func letGo(pid uintptr, signal uint32) {
	if signal == uint32(unix.SIGTRAP) {
		signal = 0
	}
	syscall.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, pid, 0, uintptr(signal), 0, 0)
}

// endInitLife reports how the command ended, and ends with the same status.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func endInitLife(n *nest) {
	n.record = record{kind: recordExited, value: uint64(n.status)}
	tell(n)
	code := uintptr(n.status >> 8 & 0xff)
	if signal := n.status & 0x7f; signal != 0 {
		code = CodeSignal + uintptr(signal)
	}
	leave(code)
}
