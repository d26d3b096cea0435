// Package procgroup runs programs that are no tasks: checks of a machine's health, what is done before and after a
// job, what people are told by. Each is run together with all that it starts, as one group of processes. When the
// program ends, what it left in its group is killed. The number of a group is its first process's, and another's
// once that is reaped: so it is killed only before.
package procgroup

import (
	"errors"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Crew is a program that was started, and its group.
type Crew struct {
	pid   int
	ended chan struct{}
	err   error

	mu     sync.Mutex // guards what follows, and the writers of its output
	reaped bool
	over   bool
}

// Start starts a program in a session of its own. What has left its group may hold its output for so long after its
// end; what comes later is read by nobody.
func Start(run *exec.Cmd, patience time.Duration) (*Crew, error) {
	c := &Crew{ended: make(chan struct{})}
	run.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	run.WaitDelay = patience
	if run.Stdout != nil {
		run.Stdout = output{c, run.Stdout}
	}
	if run.Stderr != nil {
		run.Stderr = output{c, run.Stderr}
	}
	if err := run.Start(); err != nil {
		return nil, err
	}
	c.pid = run.Process.Pid
	go c.wait(run)
	return c, nil
}

func (c *Crew) wait(run *exec.Cmd) {
	for errors.Is(unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		continue // a signal of the agent's own
	}
	c.Kill() // what it left behind
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	c.err = run.Wait()
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	close(c.ended)
}

// Kill kills all that is left of the group.
func (c *Crew) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
}

// Ended is closed when the program has ended and nothing is written of its output any more.
func (c *Crew) Ended() <-chan struct{} { return c.ended }

// Err is how the program ended, once it has, as exec.Cmd.Wait tells it. Output that somebody held on to is no error.
func (c *Crew) Err() error {
	if errors.Is(c.err, exec.ErrWaitDelay) {
		return nil
	}
	return c.err
}

// output is where a program's output goes, until it is over.
type output struct {
	c *Crew
	w io.Writer
}

func (o output) Write(text []byte) (int, error) {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if o.c.over {
		return len(text), nil
	}
	return o.w.Write(text)
}
