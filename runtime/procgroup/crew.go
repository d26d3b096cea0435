// Package procgroup runs programs that are not tasks: health checks, prologs and epilogs, and notifications. Each
// program runs in one process group with all its children. When the program ends, the rest of its group is killed. The
// id of a group is the pid of its first process, and may be reused after that process is reaped. Therefore the group is
// killed only before that.
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

// Crew is a started program and its process group.
type Crew struct {
	pid   int
	ended chan struct{}
	err   error

	mu     sync.Mutex // guards the following fields and the writers of the output
	reaped bool
	over   bool
}

// Start starts a program in a new session. patience bounds how long a process outside of the group may hold the output
// open after the program's end. Later output is discarded.
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
		continue // a signal of the agent itself
	}
	c.Kill() // kills the remaining processes
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	c.err = run.Wait()
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	close(c.ended)
}

// Kill kills all remaining processes of the group.
func (c *Crew) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
}

// Ended returns a channel that closes when the program has ended and its output is complete.
func (c *Crew) Ended() <-chan struct{} { return c.ended }

// Err returns how the program ended, like exec.Cmd.Wait. It is valid after Ended. A process that held the output open
// is not an error.
func (c *Crew) Err() error {
	if errors.Is(c.err, exec.ErrWaitDelay) {
		return nil
	}
	return c.err
}

// output writes a program's output until the program has ended.
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
