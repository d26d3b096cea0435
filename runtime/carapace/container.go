//go:build linux

package carapace

// This file owns a started container: its state, its signals and its end. Its init is reaped first. Then its cgroups
// and its directory are removed. Done closes when nothing of the container is left.

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Container is one container of this process. All goroutines may call its methods.
type Container struct {
	spec       Spec
	options    Options
	dir        *lockedDir
	group      *cgroup
	unenforced []string
	began      time.Time

	making     making
	pid        int
	pidfd      int // of its first process
	startTicks uint64

	// telling orders the events and guards oomTold.
	telling sync.Mutex
	oomTold bool

	// closing guards the pidfd. A signal must not use a descriptor that was closed and reused.
	closing sync.Mutex
	closed  bool
	killed  bool
	// settled reports that the start has succeeded or failed. expired reports that the caller has given up the
	// start. closing guards both.
	settled, expired bool

	done chan struct{}
	exit Exit
}

// removeLimit bounds the wait for the removal of cgroups at a container's end.
const removeLimit = 5 * time.Second

func (c *Container) ID() string { return c.spec.ID }

// Pid returns the pid of init as this process sees it. With NoInit, it is the pid of the command.
func (c *Container) Pid() int { return c.pid }

// Unenforced returns the requested limits that this node cannot enforce, each with its reason.
func (c *Container) Unenforced() []string { return c.unenforced }

// Done returns a channel that closes when every process has ended and everything was removed.
func (c *Container) Done() <-chan struct{} { return c.done }

// Wait returns how the container ended. Any number of callers may wait.
func (c *Container) Wait() Exit {
	<-c.done
	return c.exit
}

func (c *Container) tell(event Event) {
	if c.options.OnEvent == nil {
		return
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	if event.Event == EventOOM {
		if c.oomTold {
			return
		}
		c.oomTold = true
	}
	c.options.OnEvent(event)
}

func (c *Container) state() State {
	return State{ID: c.spec.ID, Running: true, Pid: c.pid, StartTicks: c.startTicks, BootID: bootID(),
		Created: c.began.UTC().Format(time.RFC3339Nano), Command: c.spec.Command, Cgroups: c.group.folders(),
		Unenforced: c.unenforced}
}

// Signal sends a signal to the command. A command that has already ended is not an error, because a signal may always
// be too late.
func (c *Container) Signal(signal syscall.Signal) error {
	if signal == unix.SIGKILL {
		return c.Kill()
	}
	return c.send(signal)
}

func (c *Container) send(signal syscall.Signal) error {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed {
		return nil
	}
	return sendSignal(c.pidfd, signal)
}

// Kill ends every process of the container. It does not wait; Done closes when they have ended.
func (c *Container) Kill() error {
	c.closing.Lock()
	c.killed = true
	c.closing.Unlock()
	// If there is an init, the kernel kills the whole pid namespace. init ends after all of its processes.
	err := c.send(unix.SIGKILL)
	c.group.kill()
	return err
}

// Stats returns the current resource use of the container.
func (c *Container) Stats() (Stats, error) {
	select {
	case <-c.done:
		return Stats{}, fmt.Errorf("%s: %w", c.spec.ID, ErrNotFound)
	default:
		return c.group.stats(), nil
	}
}

// Gone reports whether init and all processes of its namespace were reaped, and no cgroup contains a process. True is
// the exit confirmation.
func (c *Container) Gone() (bool, error) {
	select {
	case <-c.done:
		return c.group.empty()
	default:
		return false, nil
	}
}

// watch follows a started container to its end, on the thread that made it.
func (c *Container) watch() {
	stopOOM := c.watchOOM()
	status, usage, byItself := c.making.wait()
	stopOOM()
	c.exit = c.conclude(status, usage, byItself)
	c.clean()
	if c.exit.OOM {
		c.tell(Event{Event: EventOOM, ID: c.spec.ID})
	}
	c.tell(Event{Event: EventExited, ID: c.spec.ID, Exit: &c.exit})
	close(c.done)
}

func (c *Container) conclude(status unix.WaitStatus, usage unix.Rusage, byItself bool) Exit {
	exit := Exit{OOM: c.group.oomKills() > 0}
	if exit.OOM {
		exit.OOMScope = OOMScope(c.group.memoryLeaves())
	}
	if status.Signaled() {
		exit.Signal = int(status.Signal())
		exit.Code = codeSignal + exit.Signal
	} else {
		exit.Code = status.ExitStatus()
	}
	c.closing.Lock()
	killed := c.killed
	c.closing.Unlock()
	switch {
	case killed:
		exit.Reason = "killed on request"
	case exit.OOM:
		exit.Reason = "a process was killed for lack of memory"
	case !byItself:
		exit.Outside = true
		exit.Reason = "the container's init was killed from outside"
	}
	stats := c.group.total()
	exit.Usage = Usage{
		CPUNs: stats.CPUNs, PeakMemoryBytes: stats.PeakMemoryBytes, WallNs: time.Since(c.began).Nanoseconds(),
	}
	if exit.Usage.CPUNs == 0 {
		exit.Usage.CPUNs = usage.Utime.Nano() + usage.Stime.Nano()
	}
	if exit.Usage.PeakMemoryBytes == 0 {
		exit.Usage.PeakMemoryBytes = usage.Maxrss << 10 // of the largest process; without cgroups, the sum is unknown
	}
	return exit
}

// clean removes everything. If something cannot be removed, its directory stays, so the next GC finds it.
func (c *Container) clean() {
	c.closing.Lock()
	c.closed = true
	c.closing.Unlock()
	if c.making != nil {
		c.making.end()
	}
	var failed error
	if c.group != nil {
		failed = c.group.remove(removeLimit)
	}
	if failed != nil {
		failed = errors.Join(failed, c.dir.lock.Close())
	} else {
		failed = c.dir.release()
	}
	if failed != nil {
		c.exit.Leftover = failed.Error()
	}
}

// undo cleans up a failed start.
func (c *Container) undo(failure *StartError) {
	c.exit = Exit{Code: failure.Code, Reason: failure.Error()}
	c.clean()
	c.tell(Event{Event: EventExited, ID: c.spec.ID, Exit: &c.exit})
	close(c.done)
}
