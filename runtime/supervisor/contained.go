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

// This file owns a task that is a container. The supervisor makes it by itself: a
// program of its own for that would be one more to execute, to watch and to lose.

// Container holds the settings of a container. Without root, the supervisor's binary makes the container after
// executing itself again, so its main calls carapace.Reexec.
type Container struct {
	Spec     carapace.Spec    `json:"spec"`
	StateDir string           `json:"state_dir"`
	Cgroups  carapace.Cgroups `json:"cgroups"`
	// Alone is why no exec session can be run in it; empty: one can.
	Alone string `json:"alone,omitempty"`
}

// contained is such a task.
type contained struct {
	k      *keeper
	init   atomic.Int64 // the container's init, from when it is there
	killed atomic.Bool
	oom    atomic.Bool

	mu        sync.Mutex
	container *carapace.Container // nil until it runs
	late      []unix.Signal       // what came before that
	failed    error               // why it was never run
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

// live is the container from its start to its end. A start may take as long as a
// mount takes, and the loop has to receive a stop meanwhile.
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
		fmt.Fprintln(os.Stderr, "supervisor: left behind:", exit.Leftover)
	}
}

// onEvent is called by the threads that make and watch the container.
func (c *contained) onEvent(e carapace.Event) {
	switch e.Event {
	case carapace.EventCreated: // and its command does not run before we return
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

// signal reaches the command alone. One that comes before it runs waits for it.
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

// ending reports whether its init is on its way out, or gone.
func (c *contained) ending() bool {
	p, there := ReadProcess(int(c.init.Load()))
	return !there || p.Ending
}

// killRound kills the container. One that is still being made is killed by its init,
// which nobody but the maker reaps; the maker then takes back what it made. Before there
// is an init, all of it is this process's doing, and is over as soon as there is one.
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
		maker = between.Parent // Without root there is a process between us and what it makes.
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
	exit.Code, exit.Signal, exit.OOM = end.Code, end.Signal, end.OOM || exit.OOM
	exit.PeakMemoryBytes = end.Usage.PeakMemoryBytes
	// What we killed was killed by us, whatever it looked like from in there.
	if exit.Detail == "" && (c.k.killedAt.IsZero() || end.OOM) {
		exit.Detail = end.Reason
	}
	return exit
}
