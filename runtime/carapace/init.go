//go:build linux

// The container's init: the same binary, executed again as the first process of the new namespaces. It builds the root,
// launches the command, passes signals on, reaps what is orphaned, and dies with its starter. It holds every capability,
// so it must never read what the task wrote, after the command runs.
package carapace

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

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
	// As PID 1 of a namespace we are not killed by what has no handler; Go installs some that end the process.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	_ = unix.SetNonblock(socketFd, true) // Then a reader waits in the poller, not on a thread of its own.
	socket := os.NewFile(socketFd, "socket of the starter")
	reader := bufio.NewReader(socket)
	var order order
	if err := receive(reader, &order); err != nil {
		return CodeSetupFailed, true
	}
	status, failure := runTask(&order, socket, reader, signals)
	last := report{Kind: reportExited, Status: uint32(status)}
	if failure != nil {
		last = report{Kind: reportFailed, Code: failure.Code, Step: failure.Step, Reason: failure.Reason}
	}
	_ = send(socket, last) // If nobody listens any more, the exit code below is all there is.
	switch {
	case failure != nil:
		return failure.Code, true
	case status.Signaled():
		return codeSignal + int(status.Signal()), true
	}
	return status.ExitStatus(), true
}

// fail wraps what went wrong with the step it went wrong in.
func fail(step string, err error) *StartError {
	var failure *StartError
	if errors.As(err, &failure) {
		return failure
	}
	return &StartError{CodeSetupFailed, step, err.Error(), err}
}

func runTask(order *order, socket *os.File, reader *bufio.Reader, signals <-chan os.Signal) (unix.WaitStatus, *StartError) {
	launch, failure := setUp(order)
	if failure != nil {
		return 0, failure
	}
	pid, failure := launch.run()
	if failure != nil {
		return 0, failure
	}
	if err := send(socket, report{Kind: reportStarted, Unenforced: launch.unenforced}); err != nil {
		return 0, fail("report", err)
	}
	go dieWithStarter(reader)
	go passOn(signals, pid)
	return reap(pid)
}

// setUp does all that comes before the command: see the order of steps in init_root.go.
func setUp(order *order) (*launch, *StartError) {
	launch := &launch{order: order}
	if !order.Rootless {
		unix.Close(viewFd)
		// Nobody in the container may look into init, whose capabilities and open files are not theirs.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return nil, fail("hide init", err)
		}
	}
	if err := launch.openCgroups(); err != nil {
		return nil, fail("cgroup", err)
	}
	root := &root{spec: &order.Spec, order: order}
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

// dieWithStarter ends the container when the other end of the socket closes, whatever closed it.
func dieWithStarter(reader *bufio.Reader) {
	var nothing struct{}
	for receive(reader, &nothing) == nil {
	}
	// All but init itself. The command is among them, so init reaps it and ends as ever.
	_ = unix.Kill(-1, unix.SIGKILL)
}

// passOn hands signals to the command. SIGURG is how Go's scheduler wakes its own threads, SIGCHLD is about init's own
// children; neither was meant for the task.
func passOn(signals <-chan os.Signal, pid int) {
	for received := range signals {
		if number := received.(syscall.Signal); number != unix.SIGURG && number != unix.SIGCHLD {
			_ = unix.Kill(pid, number)
		}
	}
}

// reap waits for the command, and for every orphan on the way. The orphans that still live then die with init.
func reap(command int) (unix.WaitStatus, *StartError) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, fail("wait", fmt.Errorf("for process %d: %w", command, err))
		}
		if pid == command {
			return status, nil
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
