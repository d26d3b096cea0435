//go:build linux

// Package fork makes a container's first process, and is what that process does until it is the command, or has
// outlived it.
//
// The process is a fork of its starter that executes nothing (clone.go). A Go program in its place would cost more
// (see docs/reports/research-log.md) and could do less: it has several threads, and those the kernel lets into no
// user namespace. So none could join a container with numbers of its own. The fork makes system calls and nothing
// else, because a fork of a Go process can do nothing else: init.go is its life as an init, command.go is how a
// process becomes the command.
//
// This file owns the starter's end. It must know nothing of what the container is made of: its caller is the thread
// that builds it.
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

// Order holds the settings of a first process. The caller still owns the descriptors, and keeps them open until Run has
// answered.
type Order struct {
	Stdio [3]uintptr // what becomes that of the command
	Joins []int      // open `tasks` files of cgroup v1, which the command joins
	Leaf  int        // a cgroup of v2, which the command is in from the start; 0: none
	IDs   int        // the user namespace that the command lives in; 0: that of the machine
	// NoInit has the process become the command itself.
	NoInit bool
	// Joined is a process of a container that is there: the thread has gone into it, and comes home once the
	// process is started. It is the command itself, as with NoInit.
	Joined bool
	// Cgroups is the cgroup namespace that a process which joins goes into; 0: it stays in the machine's. It goes
	// there by itself, once it is born: a thread that is inside already may put nothing that it forks into a cgroup
	// of v2, because its own lies outside, and where the tree is mounted with nsdelegate, as systemd does, nobody
	// reaches across that.
	Cgroups int
	// Rootless is a starter without the machine's rights: nothing is kept from the task then that it could not have
	// anyway.
	Rootless bool
}

// The codes that a process ends with which could not become the command, and which was killed by a signal.
const (
	CodeFailed = 125
	CodeSignal = 128
)

// Process is one, as its starter sees it. All but Stop is for the one locked thread that calls Start: the process
// dies with it.
type Process struct {
	order  Order
	socket Channel
	theirs int   // the other end
	copies []int // streams that were moved out of each other's way
	nest   *nest
	pid    int
	pidfd  atomic.Int64 // zero is none
	status *unix.WaitStatus
	usage  unix.Rusage
}

// Failure says which step of a process failed.
type Failure struct {
	Step  Step
	Index int // which of several
	Errno syscall.Errno
}

func (f *Failure) Error() string { return fmt.Sprintf("step %d (%d): %v", f.Step, f.Index, f.Errno) }

// Death is the end of a process before it was the command.
type Death struct {
	Status unix.WaitStatus
	Cause  error
}

func (d *Death) Error() string { return fmt.Sprintf("first process ended: %v", d.Cause) }

// New is a process that is still to be made: Prepare, Start, Proc, Pivoted, Run, Wait and End, in this order. One
// that joins a container has no Proc and no Pivoted.
func New() *Process { return &Process{socket: -1, theirs: -1} }

// Prepare opens all that it is to have.
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
		if fd < 3 && fd != uintptr(place) { // Else it would be overwritten on its way to its place.
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
			return fmt.Errorf("own binary: %w", err)
		}
	}
	n.fill(&p.order)
	return nil
}

// aboveStdio moves a descriptor out of the streams' places, where one is opened if a starter has closed its own.
func aboveStdio(fd int) (int, error) {
	if fd >= 3 {
		return fd, nil
	}
	defer unix.Close(fd)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
}

// mountOfBinary answers which mount a process's binary was executed from. A mount keeps its number for as long.
func mountOfBinary(process string) (uint64, error) {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, filepath.Join("/proc", process, "exe"), 0, unix.STATX_MNT_ID, &stat)
	if err == nil && stat.Mask&unix.STATX_MNT_ID == 0 {
		err = errors.New("the kernel does not report its mount: Linux 5.12 or newer is needed")
	}
	return stat.Mnt_id, err
}

// Start makes the process, in a pid namespace of its own and the namespaces that the thread is in.
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

// Proc waits for its mount of /proc.
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
		return -1, fmt.Errorf("mount of /proc from init: %d messages, %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("mount of /proc from init: %d descriptors, %w", len(fds), err)
	}
	return fds[0], nil
}

// Pivoted tells it that the namespace's root is the container's now.
func (p *Process) Pivoted() error {
	_, err := p.socket.Write([]byte{1})
	return err
}

// listen waits for the next word.
func listen(from Channel) (record, error) {
	var text [recordBytes]byte
	_, err := io.ReadFull(from, text[:])
	return recordOf(text), err
}

// Run has it run the command. It answers why nobody looked at the binary that the command executes, on a machine that
// forbids us to trace, or to look at another user's process.
func (p *Process) Run(plan *Plan) (untraced, err error) {
	text, err := plan.lay()
	if err != nil {
		return nil, err
	}
	defer p.Shed() // While the command runs there is time for it.
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

// becomeCommand has a process without an init go on to its exec, and looks at that as an init would (init.go).
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

// mourn is for a process that died of its set-up: killed, as a rule, because somebody wanted the container gone.
func (p *Process) mourn(err error) error {
	p.Stop() // It closed its socket, or lost its reason; it is not coming back.
	return &Death{p.reap(), err}
}

// reap waits for the process, which is over only when every process of its namespace is.
func (p *Process) reap() unix.WaitStatus {
	for p.status == nil {
		var status unix.WaitStatus
		_, err := unix.Wait4(p.pid, &status, 0, &p.usage)
		if err == nil && status.Stopped() { // One that is traced, and killed meanwhile, or calls itself traced by us.
			letGo(uintptr(p.pid), uint32(status.StopSignal()))
			continue
		}
		if err == unix.EINTR {
			continue
		}
		if err != nil { // Somebody else in this process reaped our child: the status is lost, the death is certain.
			status = unix.WaitStatus(unix.SIGKILL)
		}
		p.status = &status
	}
	return *p.status
}

// Wait waits for the end of all its processes. byItself: the command's own end is what is told.
func (p *Process) Wait() (status unix.WaitStatus, usage unix.Rusage, byItself bool) {
	status = p.reap()
	if p.order.NoInit {
		return status, p.usage, true
	}
	var text [recordBytes]byte
	// It is there already if it ever will be: init is gone.
	if n, _, err := unix.Recvfrom(int(p.socket), text[:], unix.MSG_DONTWAIT); err != nil || n < len(text) {
		return status, p.usage, false
	}
	return unix.WaitStatus(recordOf(text).value), p.usage, true
}

// Stop kills what there is of it, from any thread.
func (p *Process) Stop() {
	if pidfd := p.pidfd.Load(); pidfd > 0 {
		_ = unix.PidfdSendSignal(int(pidfd), unix.SIGKILL, nil, 0)
	}
}

// Shed lets go of what only the process was to have.
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

// End gives back what is left: it may be called at any time, and ends what still runs.
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
