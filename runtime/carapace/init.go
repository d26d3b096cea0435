//go:build linux

// The container's init: the same binary, executed again as the first process of the new namespaces. It builds the root,
// launches the command, passes signals on, reaps what is orphaned, and dies with its starter. It holds every capability,
// so it must never read what the task wrote, after the command runs.
package carapace

import (
	"bufio"
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Where init finds what it was handed: behind stdin, stdout and stderr.
const (
	socketFd = 3 // the socket to its starter
	viewFd   = 4 // as root, the view of the binary that it was executed by
)

// Reexec is what main calls before anything else, with os.Args. Where this process was started to be a container's init
// it does that, and answers true and the code to exit with.
func Reexec(arguments []string) (code int, mine bool) {
	if len(arguments) != 1 || arguments[0] != initName {
		return 0, false
	}
	// Everything else that we were born with is not the task's: it is closed on the way to the command.
	if err := unix.CloseRange(socketFd, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return CodeSetupFailed, true
	}
	signals, err := openInbox()
	if err != nil {
		return CodeSetupFailed, true
	}
	socket := channel(socketFd)
	reader := bufio.NewReader(socket)
	launch, pid, failure := begin(reader, signals)
	if failure != nil {
		_ = send(socket, report{Kind: reportFailed, Code: failure.Code, Step: failure.Step, Reason: failure.Reason})
		return failure.Code, true
	}
	_ = send(socket, report{Kind: reportStarted, Unenforced: launch.unenforced}) // A starter that is gone is noticed below.
	if !launch.order.Rootless {
		unix.Close(viewFd) // Letting go of a mount makes the kernel wait for every processor, so it comes this late.
	}
	letGoOfStdio()
	go dieWithStarter(reader)
	go signals.passOn(launch.early, pid)
	status := reap(pid)
	_ = send(socket, report{Kind: reportExited, Status: uint32(status)}) // If nobody listens any more, the exit code is all there is.
	if status.Signaled() {
		return codeSignal + int(status.Signal()), true
	}
	return status.ExitStatus(), true
}

// begin does all there is to do until the command runs, on one thread from beginning to end. That thread gives up its
// rights on the way, so it is used for nothing else; the main thread could not end with it, and is kept out of it.
func begin(reader *bufio.Reader, signals inbox) (launch *launch, pid int, failure *StartError) {
	runtime.LockOSThread()
	began := make(chan struct{})
	go func() {
		defer close(began)
		runtime.LockOSThread() // And never unlocked: the thread ends with this goroutine.
		var order order
		if err := receive(reader, &order); err != nil {
			failure = fail("order", err)
			return
		}
		if launch, failure = setUp(&order); failure == nil {
			launch.signals = signals
			pid, failure = launch.run()
		}
	}()
	<-began
	runtime.UnlockOSThread()
	return launch, pid, failure
}

// fail wraps what went wrong with the step it went wrong in.
func fail(step string, err error) *StartError {
	var failure *StartError
	if errors.As(err, &failure) {
		return failure
	}
	return &StartError{CodeSetupFailed, step, err.Error(), err}
}

// setUp does all that comes before the command: see the order of steps in init_root.go.
func setUp(order *order) (*launch, *StartError) {
	launch := &launch{order: order}
	if !order.Rootless {
		// Nobody in the container may look into init, whose capabilities and open files are not theirs.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return nil, fail("hide init", err)
		}
	}
	if err := launch.openCgroups(); err != nil {
		return nil, fail("cgroup", err)
	}
	root := &root{spec: &order.Spec, order: order, letGo: make(chan error, 1)}
	if err := root.build(); err != nil {
		return nil, fail("root", err)
	}
	launch.unenforced = root.unenforced
	if order.Spec.Hostname != "" {
		if err := unix.Sethostname([]byte(order.Spec.Hostname)); err != nil {
			return nil, fail("hostname", err)
		}
	}
	if order.Spec.Net == netNone {
		if err := raiseLoopback(); err != nil {
			return nil, fail("loopback", err)
		}
	}
	if err := launch.prepare(); err != nil {
		return nil, fail("prepare", err)
	}
	return launch, nil
}

// letGoOfStdio leaves stdin, stdout and stderr to the command: who reads them sees their end when the command closes them.
func letGoOfStdio() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return // Then their end is told when the container ends.
	}
	defer unix.Close(null)
	for fd := range socketFd {
		_ = unix.Dup3(null, fd, 0)
	}
}

// dieWithStarter ends the container when the other end of the socket closes, whatever closed it.
func dieWithStarter(reader *bufio.Reader) {
	var nothing struct{}
	for receive(reader, &nothing) == nil {
	}
	// All but init itself. The command is among them, so init reaps it and ends as ever.
	_ = unix.Kill(-1, unix.SIGKILL)
}

// reap waits for the command, and for every orphan on the way. The orphans that still live then die with init.
func reap(command int) unix.WaitStatus {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil { // No child is left, so the command is not; its status is lost, which cannot be told from a kill.
			return unix.WaitStatus(unix.SIGKILL)
		}
		if pid == command {
			return status
		}
	}
}

// raiseLoopback switches the new network namespace's only interface on.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}
