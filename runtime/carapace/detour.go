//go:build linux

package carapace

// This file implements the start of a container without root rights. Only a user namespace gives the rights to make a
// container, and the kernel does not let a process of several threads join one. Therefore the starter executes its own
// binary again as the first process of a new user namespace. That process makes the container as root would (maker.go).
// This file contains both sides of this detour.

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace/fork"
	"github.com/yi-json/synapse/runtime/fault"
)

// detourName is the first argument of the re-executed binary. Only a detour uses it, together with a socket.
const detourName = "carapace-detour"

// socketFd is the socket's descriptor in the second process, after stdin, stdout and stderr.
const socketFd = 3

// detour holds the starter's side.
type detour struct {
	order      *order
	executable string
	stdio      [3]uintptr

	socket     fork.Channel
	reports    *bufio.Reader
	second     int          // the process of the user namespace
	secondFd   atomic.Int64 // its pidfd; 0: none
	pid, pidfd int          // of init
}

func newDetour(order *order, executable string, stdio [3]uintptr) *detour {
	return &detour{order: order, executable: cmp.Or(executable, "/proc/self/exe"), stdio: stdio, socket: -1}
}

func (d *detour) begin() *StartError {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail("socket", fault.OfMachine(err))
	}
	defer unix.Close(pair[1])
	d.socket = fork.Channel(pair[0])
	d.reports = bufio.NewReader(d.socket)
	pidfd := -1
	d.second, err = syscall.ForkExec(d.executable, []string{detourName}, &syscall.ProcAttr{
		Env:   []string{"GOMAXPROCS=1", "GOGC=off", "GOTRACEBACK=none"},
		Files: []uintptr{d.stdio[0], d.stdio[1], d.stdio[2], uintptr(pair[1])},
		Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		},
	})
	if err != nil {
		return fail("create namespaces", fault.OfMachine(err))
	}
	d.secondFd.Store(int64(pidfd))
	if err := send(d.socket, d.order); err != nil {
		return d.mourn(err)
	}
	made, failure := d.receive(reportMade)
	if failure != nil {
		return failure
	}
	d.pid = made.Pid
	if d.pidfd, err = unix.PidfdOpen(d.pid, 0); err != nil {
		d.pidfd = 0
		return fail("init", fault.OfMachine(err))
	}
	return nil
}

// receive waits for one kind of report. The only other possible report is a failure.
func (d *detour) receive(kind string) (report, *StartError) {
	var said report
	if err := receive(d.reports, &said); err != nil {
		return said, d.mourn(err)
	}
	if said.Kind != kind {
		return said, &StartError{said.Code, said.Step, said.Reason, fault.By(said.Fault, errors.New(said.Reason))}
	}
	return said, nil
}

func (d *detour) mourn(err error) *StartError {
	d.stop()
	status, _ := d.reap()
	if status.Signaled() {
		return &StartError{codeSignal + int(status.Signal()), "set-up", "the process was killed before the command ran", err}
	}
	return &StartError{CodeSetupFailed, "set-up",
		fmt.Sprintf("the maker of the container ended with code %d before the command ran", status.ExitStatus()), err}
}

func (d *detour) process() (pid, pidfd int) { return d.pid, d.pidfd }

func (d *detour) run() ([]string, *StartError) {
	if err := send(d.socket, report{Kind: reportRun}); err != nil {
		return nil, d.mourn(err)
	}
	started, failure := d.receive(reportStarted)
	return started.Unenforced, failure
}

func (d *detour) wait() (unix.WaitStatus, unix.Rusage, bool) {
	var said report
	err := receive(d.reports, &said)
	status, usage := d.reap()
	if err != nil || said.Kind != reportExited {
		return status, usage, false
	}
	return unix.WaitStatus(said.Status), usage, said.ByItself
}

func (d *detour) reap() (unix.WaitStatus, unix.Rusage) {
	var status unix.WaitStatus
	var usage unix.Rusage
	for d.second > 0 {
		_, err := unix.Wait4(d.second, &status, 0, &usage)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			status = unix.WaitStatus(unix.SIGKILL)
		}
		d.second = 0
	}
	return status, usage
}

func (d *detour) stop() {
	if pidfd := d.secondFd.Load(); pidfd > 0 {
		_ = unix.PidfdSendSignal(int(pidfd), unix.SIGKILL, nil, 0)
	}
}

func (d *detour) end() {
	if d.second > 0 {
		d.stop() // Init dies with its maker, and the code below waits for it.
		d.reap()
	}
	if pidfd := int(d.secondFd.Swap(0)); pidfd > 0 {
		unix.Close(pidfd)
	}
	if d.pidfd > 0 {
		_ = unix.PidfdSendSignal(d.pidfd, unix.SIGKILL, nil, 0)
		awaitDeath(d.pidfd, removeLimit)
		unix.Close(d.pidfd)
		d.pidfd = 0
	}
	if d.socket >= 0 {
		unix.Close(int(d.socket))
		d.socket = -1
	}
}

// Reexec must be the first call of main, with os.Args. If this process was started as a detour's second process, Reexec
// runs it and returns its exit code and true.
func Reexec(arguments []string) (code int, mine bool) {
	if len(arguments) != 1 || arguments[0] != detourName {
		return 0, false
	}
	// The other inherited descriptors do not belong to the task.
	if err := unix.CloseRange(socketFd, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return CodeSetupFailed, true
	}
	ended := make(chan int)
	onOwnThread(func() { ended <- beSecond(fork.Channel(socketFd)) })
	return <-ended, true
}

// beSecond makes the container of the order that it receives, and reports the progress. If it dies at any time, the
// container dies too.
func beSecond(socket fork.Channel) int {
	reader := bufio.NewReader(socket)
	var order order
	if err := receive(reader, &order); err != nil {
		return CodeSetupFailed
	}
	m := newMaker(&order, [3]uintptr{0, 1, 2})
	defer m.end()
	refuse := func(failure *StartError) int {
		_ = send(socket, report{Kind: reportFailed, Code: failure.Code, Step: failure.Step, Reason: failure.Reason,
			Fault: fault.Of(failure)})
		return failure.Code
	}
	if failure := m.begin(); failure != nil {
		return refuse(failure)
	}
	var word report
	pid, _ := m.process()
	if err := send(socket, report{Kind: reportMade, Pid: pid}); err != nil || receive(reader, &word) != nil {
		return CodeSetupFailed
	}
	unenforced, failure := m.run()
	if failure != nil {
		return refuse(failure)
	}
	// If no process receives this, this process is about to be killed.
	_ = send(socket, report{Kind: reportStarted, Unenforced: unenforced})
	letGoOfStdio()
	status, _, byItself := m.wait()
	_ = send(socket, report{Kind: reportExited, Status: uint32(status), ByItself: byItself})
	return 0
}

// letGoOfStdio closes this process's stdin, stdout and stderr. A reader then sees their end when the command closes
// them.
func letGoOfStdio() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return // Then readers see their end when the container ends.
	}
	defer unix.Close(null)
	for fd := range socketFd {
		_ = unix.Dup3(null, fd, 0)
	}
}
