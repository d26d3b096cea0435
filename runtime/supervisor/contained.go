package supervisor

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
)

// This file runs a task that is a container. The supervisor makes the container itself. A separate program would be
// another process to execute, watch and lose.

// Container holds the settings of a container. Without root, the supervisor's binary makes the container after
// executing itself again, so its main calls carapace.Reexec.
type Container struct {
	Spec     carapace.Spec    `json:"spec"`
	StateDir string           `json:"state_dir"`
	Cgroups  carapace.Cgroups `json:"cgroups"`
	// Alone is the reason why exec sessions are impossible in the container; empty: they are possible.
	Alone string `json:"alone,omitempty"`
}

// contained is a task in a container.
type contained struct {
	k      *keeper
	init   atomic.Int64 // the pid of the container's init, once it exists
	killed atomic.Bool
	oom    atomic.Bool

	mu        sync.Mutex
	container *carapace.Container // nil until it runs
	late      []unix.Signal       // signals that arrived before that
	failed    error               // why it never ran
}

func newContained(k *keeper) *contained { return &contained{k: k} }

func (c *contained) start() *Exit {
	theirs, err := c.k.openOutput()
	if err != nil {
		return setUpFailed(err)
	}
	c.k.copyLogs()
	go c.live(theirs)
	return nil
}

// live runs the container from its start to its end. A start may take as long as a mount takes, and the loop must be
// able to receive a stop meanwhile.
func (c *contained) live(theirs [2]*os.File) {
	defer close(c.k.allGone)
	of := c.k.spec.Container
	container, err := carapace.Start(of.Spec, carapace.Options{
		StateDir: of.StateDir, Cgroups: of.Cgroups, Stdout: theirs[0], Stderr: theirs[1], OnEvent: c.onEvent,
	})
	closeAll(theirs[:])
	if err != nil {
		c.failed = err
		return
	}
	c.becomeRunning(container)
	c.k.began <- container.Pid()
	if exit := container.Wait(); exit.Leftover != "" {
		fmt.Fprintln(os.Stderr, "supervisor: not removed:", exit.Leftover)
	}
}

// onEvent is called by the threads that make and watch the container.
func (c *contained) onEvent(e carapace.Event) {
	switch e.Event {
	case carapace.EventCreated: // the command does not run before this returns
		c.init.Store(int64(e.Pid))
		if err := c.k.note(e.Pid); err != nil {
			fmt.Fprintln(os.Stderr, "supervisor:", err)
			c.killed.Store(true)
		}
		if c.killed.Load() {
			_ = unix.Kill(e.Pid, unix.SIGKILL)
		}
	case carapace.EventOOM:
		c.oom.Store(true)
	}
}

func (c *contained) becomeRunning(container *carapace.Container) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.container = container
	for _, sig := range c.late {
		_ = container.Signal(sig)
	}
	if c.killed.Load() {
		_ = container.Kill()
	}
}

// exec runs a process in the container.
func (c *contained) exec(what carapace.ExecSpec) (execProcess, error) {
	c.mu.Lock()
	container := c.container
	c.mu.Unlock()
	switch {
	case c.k.spec.Container.Alone != "":
		return nil, errors.New(c.k.spec.Container.Alone)
	case container == nil:
		return nil, errNotRunning
	}
	f, err := container.Exec(what)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// signal sends a signal to the command only. A signal before the start of the command is sent after the start.
func (c *contained) signal(sig unix.Signal) {
	if sig == unix.SIGKILL {
		c.k.kill()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.container != nil {
		_ = c.container.Signal(sig)
		return
	}
	c.late = append(c.late, sig)
}

// ending reports whether the container's init is exiting or gone.
func (c *contained) ending() bool {
	p, there := ReadProcess(int(c.init.Load()))
	return !there || p.Ending
}

// killRound kills the container. For a container that is still being made, it kills the init. Only the maker reaps this
// init, and then undoes its work. Before there is an init, nothing can be killed; a later round does it.
func (c *contained) killRound() {
	c.killed.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.container != nil {
		_ = c.container.Kill()
		return
	}
	p, ok := ReadProcess(int(c.init.Load()))
	if !ok {
		return
	}
	maker := p.Parent
	if between, ok := ReadProcess(maker); ok && maker != os.Getpid() {
		maker = between.Parent // Without root there is a process between this one and the init.
	}
	if maker == os.Getpid() {
		_ = p.Send(unix.SIGKILL)
	}
}

// verdict returns the container's own report of its exit. A container that could not be set up is never the user's
// fault.
func (c *contained) verdict() *Exit {
	exit := &Exit{Kind: Exited, Detail: c.k.detail, OOM: c.oom.Load()}
	if c.failed != nil {
		exit.Code = codeSetUp
		if failure := new(carapace.StartError); errors.As(c.failed, &failure) {
			exit.Code = failure.Code
		}
		if exit.Code == codeSetUp {
			never := neverRun(c.failed)
			exit.Kind, exit.Code, exit.Fault = never.Kind, never.Code, never.Fault
		}
		if exit.Detail == "" && exit.Code <= codeNotFound {
			exit.Detail = c.failed.Error()
		}
		return exit
	}
	end := c.container.Wait()
	exit.Code, exit.Signal, exit.OOM, exit.OOMScope = end.Code, end.Signal, end.OOM || exit.OOM, end.OOMScope
	if end.Outside && c.k.killedAt.IsZero() {
		exit.EndedBy = ByHost
	}
	exit.PeakMemoryBytes, exit.CPUNs = end.Usage.PeakMemoryBytes, end.Usage.CPUNs
	// A container that the supervisor killed needs no reason from inside.
	if exit.Detail == "" && (c.k.killedAt.IsZero() || end.OOM) {
		exit.Detail = end.Reason
	}
	return exit
}
