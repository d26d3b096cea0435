//go:build linux

package carapace

// A container that was started: what it may be asked and told, and how it ends. Its init is reaped first, and only
// after that its cgroups and its directory go; Done closes when nothing of it is left.

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Container is one container of this process. Its methods may be called from anywhere.
type Container struct {
	spec       Spec
	options    Options
	dir        *lockedDir
	group      *cgroup
	unenforced []string
	began      time.Time

	making     making
	pid        int
	pidfd      int // of its process
	startTicks uint64

	// telling orders the events; oomTold is under it.
	telling sync.Mutex
	oomTold bool

	// closing guards the pidfd: a signal must not go to a number that was given to another file.
	closing sync.Mutex
	closed  bool
	killed  bool
	// settled says that a start has ended, one way or the other; expired, that its caller has given it up. Both are under
	// closing.
	settled, expired bool

	done chan struct{}
	exit Exit
}

// removeLimit is how long the end of a container waits for its cgroups to be let go of.
const removeLimit = 5 * time.Second

func (c *Container) ID() string { return c.spec.ID }

// Pid is that of init, as this process sees it. It is the command's own with NoInit.
func (c *Container) Pid() int { return c.pid }

// Unenforced returns the requested limits that this node cannot enforce, each with its reason.
func (c *Container) Unenforced() []string { return c.unenforced }

// Done is closed when every process is gone and everything was removed.
func (c *Container) Done() <-chan struct{} { return c.done }

// Wait answers how the container ended. Any number of callers may wait.
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

// Signal sends a signal to the command. One that has gone already is no error: the signal came too late, as signals
// may.
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

// Kill ends every process of the container. It does not wait; Done tells when they are gone.
func (c *Container) Kill() error {
	c.closing.Lock()
	c.killed = true
	c.closing.Unlock()
	// With init the kernel kills the whole pid namespace, and init is not over before the last of them is.
	err := c.send(unix.SIGKILL)
	c.group.kill()
	return err
}

// Stats returns the present use of the container.
func (c *Container) Stats() (Stats, error) {
	select {
	case <-c.done:
		return Stats{}, fmt.Errorf("%s: %w", c.spec.ID, ErrNotFound)
	default:
		return c.group.stats(), nil
	}
}

// Gone is the evidence: init was reaped, with all processes of its namespace, and no cgroup holds another one.
func (c *Container) Gone() (bool, error) {
	select {
	case <-c.done:
		return c.group.empty()
	default:
		return false, nil
	}
}

// watch sees a started container to its end, on the thread that made it.
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
		exit.Reason = "a process was killed for want of memory"
	case !byItself:
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
		exit.Usage.PeakMemoryBytes = usage.Maxrss << 10 // The largest single process; without cgroups nobody knows the sum.
	}
	return exit
}

// clean removes everything. What cannot be removed keeps its directory, so that the next GC finds it.
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

// undo takes back a start that failed.
func (c *Container) undo(failure *StartError) {
	c.exit = Exit{Code: failure.Code, Reason: failure.Error()}
	c.clean()
	c.tell(Event{Event: EventExited, ID: c.spec.ID, Exit: &c.exit})
	close(c.done)
}
