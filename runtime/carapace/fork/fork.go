//go:build linux

// Package fork makes a container's first process. It also contains the code of that process until it becomes the
// command or the command has ended.
//
// The process is a fork of its starter without exec (clone.go). A separate Go program would cost more (see
// docs/reports/research-log.md) and could do less. It would have several threads, and the kernel does not let such a
// process join a user namespace. It could therefore not join a container with a separate id range. After the fork of a
// Go process, only system calls are possible, so the code makes only system calls. init.go runs as init. command.go
// turns a process into the command.
//
// This file owns the starter's side. It must not know the contents of the container, which the caller's thread builds.
package fork

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Order holds the settings of a first process. The caller owns the descriptors and keeps them open until Run has
// returned.
type Order struct {
	Stdio [3]uintptr // the streams of the command
	Joins []int      // open `tasks` files of cgroup v1, which the command joins
	Leaf  int        // the cgroup of v2 in which the command is created; 0: none
	IDs   int        // the user namespace of the command; 0: the host's
	// NoInit makes the process the command itself, without an init.
	NoInit bool
	// Joined adds a process to an existing container. The thread has entered the container and returns when the
	// process is started. The process is the command itself, as with NoInit.
	Joined bool
	// Cgroups is the cgroup namespace that a joined process enters; 0: it stays in the host's. The process enters
	// it itself, after its creation. A thread inside the namespace cannot create a process in a cgroup of v2,
	// because its own cgroup is outside. If the tree is mounted with nsdelegate, as by systemd, the kernel forbids
	// that.
	Cgroups int
	// Rootless reports a starter without root rights on the host. The task could then have nothing that must be
	// hidden from it.
	Rootless bool
}

// Exit codes of a process that could not become the command, and of one that was killed by a signal.
const (
	CodeFailed = 125
	CodeSignal = 128
)

// Process is a first process as seen by its starter. All methods except Stop must be called on the locked thread that
// calls Start. The process dies with that thread.
type Process struct {
	order  Order
	socket Channel
	theirs int   // the process's end of the socket
	copies []int // streams that were moved so that they do not overwrite each other
	nest   *nest
	pid    int
	pidfd  atomic.Int64 // 0: none
	status *unix.WaitStatus
	usage  unix.Rusage
}

// Failure reports the step of a process that failed.
type Failure struct {
	Step  Step
	Index int // index within steps of several items
	Errno syscall.Errno
}

func (f *Failure) Error() string { return fmt.Sprintf("step %d (%d): %v", f.Step, f.Index, f.Errno) }

// Death reports that a process ended before it was the command.
type Death struct {
	Status unix.WaitStatus
	Cause  error
}

func (d *Death) Error() string { return fmt.Sprintf("first process ended: %v", d.Cause) }

// New returns a process that does not exist yet. The caller calls Prepare, Start, Proc, Pivoted, Run, Wait and End, in
// this order. A process that joins a container has no Proc and no Pivoted.
func New() *Process { return &Process{socket: -1, theirs: -1} }

// Prepare opens the descriptors that the process needs.
func (p *Process) Prepare(order Order) error {
	p.order = order
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	p.socket = Channel(pair[0])
	if p.theirs, err = aboveStdio(pair[1]); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if p.nest, err = newNest(); err != nil {
		return err
	}
	n := p.nest
	p.order.NoInit = p.order.NoInit || p.order.Joined
	n.socket, n.noInit, n.hidden, n.traced = uintptr(p.theirs), p.order.NoInit, !p.order.Rootless, !p.order.Rootless
	n.joined, n.cgroups, n.ids = p.order.Joined, uintptr(p.order.Cgroups), uintptr(p.order.IDs)
	n.ownCgroups = !n.joined && (len(p.order.Joins) > 0 || p.order.Leaf > 0)
	for place, fd := range p.order.Stdio {
		if fd < 3 && fd != uintptr(place) { // Otherwise it would be overwritten before its use.
			moved, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
			if err != nil {
				return fmt.Errorf("stdio: %w", err)
			}
			p.copies, fd = append(p.copies, moved), uintptr(moved)
		}
		n.stdio[place] = fd
	}
	if n.traced {
		if n.exeMount, err = mountOfBinary("self"); err != nil {
			return fmt.Errorf("find the mount of the own binary: %w", err)
		}
	}
	n.fill(&p.order)
	return nil
}

// aboveStdio moves a descriptor above 2. A starter that has closed its streams may get such a low number.
func aboveStdio(fd int) (int, error) {
	if fd >= 3 {
		return fd, nil
	}
	defer unix.Close(fd)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
}

// mountOfBinary returns the id of the mount from which a process's binary was executed. A mount keeps its id while it
// exists.
func mountOfBinary(process string) (uint64, error) {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, filepath.Join("/proc", process, "exe"), 0, unix.STATX_MNT_ID, &stat)
	if err == nil && stat.Mask&unix.STATX_MNT_ID == 0 {
		err = errors.New("the kernel does not report the mount: Linux 5.12 or newer is required")
	}
	return stat.Mnt_id, err
}

// Start makes the process in a new pid namespace and the other namespaces of the thread.
func (p *Process) Start() error {
	pid, pidfd, err := p.nest.fork()
	unix.Close(p.theirs)
	p.theirs = -1
	if err != nil {
		return err
	}
	p.pid = pid
	p.pidfd.Store(int64(pidfd))
	return nil
}

// Numbers returns the pid and pidfd of the process, from Start to End.
func (p *Process) Numbers() (pid, pidfd int) { return p.pid, int(p.pidfd.Load()) }

// Proc waits for the process's mount of /proc.
func (p *Process) Proc() (int, error) {
	var text [recordBytes]byte
	var control [64]byte
	n, controlN, _, _, err := unix.Recvmsg(int(p.socket), text[:], control[:], unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, controlN, _, _, err = unix.Recvmsg(int(p.socket), text[:], control[:], unix.MSG_CMSG_CLOEXEC)
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return -1, p.mourn(err)
	}
	if said := recordOf(text); said.kind == recordFailed {
		return -1, said.failure()
	}
	messages, err := unix.ParseSocketControlMessage(control[:controlN])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("receive the mount of /proc from init: %d messages, %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("receive the mount of /proc from init: %d descriptors, %w", len(fds), err)
	}
	return fds[0], nil
}

// Pivoted reports to the process that the namespace's root is now the container's.
func (p *Process) Pivoted() error {
	_, err := p.socket.Write([]byte{1})
	return err
}

// listen waits for the next record.
func listen(from Channel) (record, error) {
	var text [recordBytes]byte
	_, err := io.ReadFull(from, text[:])
	return recordOf(text), err
}

// Run lets the process run the command. untraced is the reason if the command's binary could not be checked. Some hosts
// forbid tracing, or access to another user's process.
func (p *Process) Run(plan *Plan) (untraced, err error) {
	text, err := plan.lay()
	if err != nil {
		return nil, err
	}
	defer p.Shed() // After Run, the descriptors are no longer needed.
	if _, err := p.socket.Write(text); err != nil {
		return nil, p.mourn(err)
	}
	said, err := listen(p.socket)
	switch {
	case err != nil:
		return nil, p.mourn(err)
	case said.kind == recordFailed:
		return nil, said.failure()
	case said.value != 0:
		untraced = syscall.Errno(said.value)
	}
	if said.kind == recordReady {
		return p.becomeCommand(plan, untraced)
	}
	return untraced, nil
}

// becomeCommand lets a process without an init continue to its exec, and checks the binary as an init would (init.go).
func (p *Process) becomeCommand(plan *Plan, untraced error) (error, error) {
	if _, err := p.socket.Write([]byte{1}); err != nil {
		return nil, p.mourn(err)
	}
	traced := p.nest.traced && untraced == nil
	if traced && p.awaitExec() {
		mount, err := mountOfBinary(strconv.Itoa(p.pid))
		switch {
		case errors.Is(err, unix.EACCES) && plan.User != nil && plan.User.UID != 0:
			untraced = err
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH):
			return nil, p.mourn(err) // A process that was killed meanwhile has no binary.
		case err != nil || mount == p.nest.exeMount:
			return nil, &Failure{Step: StepBinary, Errno: unix.EACCES}
		}
		_ = unix.PtraceDetach(p.pid)
		return untraced, nil
	}
	said, err := listen(p.socket)
	switch {
	case err == nil:
		return nil, said.failure()
	case traced:
		return nil, p.mourn(err)
	}
	return untraced, nil // Its exec closed the socket.
}

// awaitExec waits until the command is stopped at its exec, or has ended.
func (p *Process) awaitExec() bool {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(p.pid, &status, 0, &p.usage)
		switch {
		case err == unix.EINTR:
		case err == nil && status.Stopped() && status.StopSignal() == unix.SIGTRAP:
			return true
		case err == nil && status.Stopped():
			_ = unix.PtraceCont(p.pid, int(status.StopSignal()))
		default:
			p.status = &status
			return false
		}
	}
}

// mourn returns the error for a process that died during set-up, usually because the container was killed.
func (p *Process) mourn(err error) error {
	p.Stop() // The process closed its socket and cannot continue.
	return &Death{p.reap(), err}
}

// reap waits for the process. It ends after all processes of its namespace.
func (p *Process) reap() unix.WaitStatus {
	for p.status == nil {
		var status unix.WaitStatus
		_, err := unix.Wait4(p.pid, &status, 0, &p.usage)
		if err == nil && status.Stopped() { // A traced process was killed, or a process asked this one to trace it.
			letGo(uintptr(p.pid), uint32(status.StopSignal()))
			continue
		}
		if err == unix.EINTR {
			continue
		}
		if err != nil { // Another part of this program reaped the child; its status is lost.
			status = unix.WaitStatus(unix.SIGKILL)
		}
		p.status = &status
	}
	return *p.status
}

// Wait waits for the end of all processes of the container. byItself reports that the status is that of the command.
func (p *Process) Wait() (status unix.WaitStatus, usage unix.Rusage, byItself bool) {
	status = p.reap()
	if p.order.NoInit {
		return status, p.usage, true
	}
	var text [recordBytes]byte
	// init has ended, so a record is already in the socket or will never arrive.
	if n, _, err := unix.Recvfrom(int(p.socket), text[:], unix.MSG_DONTWAIT); err != nil || n < len(text) {
		return status, p.usage, false
	}
	return unix.WaitStatus(recordOf(text).value), p.usage, true
}

// Stop kills the process. Any thread may call it.
func (p *Process) Stop() {
	if pidfd := p.pidfd.Load(); pidfd > 0 {
		_ = unix.PidfdSendSignal(int(pidfd), unix.SIGKILL, nil, 0)
	}
}

// Shed closes the descriptors that only the process needs.
func (p *Process) Shed() {
	for _, fd := range append(p.copies, p.theirs) {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	p.copies, p.theirs = nil, -1
	if p.nest != nil {
		p.nest.free()
		p.nest = nil
	}
}

// End frees all resources and ends running processes. It may be called at any time.
func (p *Process) End() {
	if p.pid > 0 {
		p.Stop()
		p.reap()
		unix.Close(int(p.pidfd.Swap(0)))
		p.pid = 0
	}
	if p.socket >= 0 {
		unix.Close(int(p.socket))
		p.socket = -1
	}
	p.Shed()
}
