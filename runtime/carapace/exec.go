//go:build linux

package carapace

// An exec session in a container that is there. It is born as the command was (launch.go, fork/command.go): one
// thread goes into the container's namespaces, finds out there who is to run what, forks, and comes home. The process
// is in the container's cgroups and in its pid namespace, so that it counts for the container and ends with it; it is
// no child of the container's init, and how it ends says nothing about the container.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace/fork"
	"github.com/yi-json/synapse/runtime/fault"
)

// ExecSpec says what an exec session runs. Whatever it does not say is as the container's command has it.
type ExecSpec struct {
	Command []string `json:"command"`
	Env     []string `json:"env,omitempty"` // beside the container's own, and in place of those of the same names
	// Terminal gives it a terminal of the container's; without it the three streams are handed on as they are.
	Terminal              bool     `json:"terminal,omitempty"`
	Stdin, Stdout, Stderr *os.File `json:"-"`
	// Born is called with the process's number before it can end by itself, in a starter that reaps what else it has: the
	// starter leaves this one to the thread that waits for it.
	Born func(pid int) `json:"-"`
}

// ExecSession is an exec session that runs, or has.
type ExecSession struct {
	// Terminal is the near end of its terminal, which belongs to the caller; nil: it has none.
	Terminal *os.File

	pid     int
	closing sync.Mutex // no signal goes to a number that may be another's
	over    bool
	done    chan struct{}
	status  unix.WaitStatus
}

// ErrNoExec is a container in which no exec session can be run.
var ErrNoExec = errors.New("no further process can join a container that a user other than root has made")

// Exec runs one in the container. It answers when the process runs, or why it does not: a *StartError.
func (c *Container) Exec(what ExecSpec) (*ExecSession, error) {
	return execIn(&joined{spec: c.spec, order: c.order(nil), first: c.first}, what)
}

// first is the container's first process, as long as nobody ends it.
func (c *Container) first() (pid int, pidfd file, err error) {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed || c.killed {
		return 0, -1, ErrNotFound
	}
	pidfd, err = dupFile(c.pidfd)
	return c.pid, pidfd, err
}

// Made is a container that another program has made as a Spec says.
type Made struct {
	Spec   Spec
	Pid    int      // of its first process, which is its command …
	PidFD  int      // … and that process, which stays the caller's
	Leaves []string // its cgroups, of those that are there
}

// Exec runs one in a container of that kind.
func (m *Made) Exec(what ExecSpec) (*ExecSession, error) {
	spec := m.Spec.filled()
	spec.NoInit = true
	order := &order{Spec: spec}
	for _, leaf := range m.Leaves {
		tasks := filepath.Join(leaf, "tasks")
		switch {
		case isFilesystem(leaf, unix.CGROUP2_SUPER_MAGIC):
			order.Leaf = leaf
		case unix.Access(tasks, unix.W_OK) == nil:
			order.Join = append(order.Join, tasks)
		}
	}
	return execIn(&joined{spec, order, func() (int, file, error) {
		pidfd, err := dupFile(m.PidFD)
		return m.Pid, pidfd, err
	}}, what)
}

// joined is a container as an exec session finds it.
type joined struct {
	spec  Spec
	order *order
	first func() (pid int, pidfd file, err error)
}

func execIn(into *joined, what ExecSpec) (*ExecSession, error) {
	if len(what.Command) == 0 || what.Command[0] == "" {
		return nil, fail("command", errors.New("is empty"))
	}
	if os.Geteuid() != 0 {
		return nil, fail("join", ErrNoExec)
	}
	f := &ExecSession{done: make(chan struct{})}
	answer := make(chan *StartError, 1)
	onOwnThread(func() { // which the process dies with, so it is waited for here
		j := &joining{of: into, what: what, process: fork.New(), home: nowhere, terminal: -1, slave: -1}
		failure := j.run(f)
		answer <- failure
		if failure == nil {
			status, _, _ := j.process.Wait()
			f.conclude(status)
		}
		j.process.End()
	})
	if failure := <-answer; failure != nil {
		return nil, failure
	}
	return f, nil
}

// Pid is its number, as this process sees it.
func (f *ExecSession) Pid() int { return f.pid }

// Done is closed when it has ended. What it has started and left behind goes on, as part of the container.
func (f *ExecSession) Done() <-chan struct{} { return f.done }

// Code is how it ended, as a shell tells it, after Done.
func (f *ExecSession) Code() int {
	if f.status.Signaled() {
		return codeSignal + int(f.status.Signal())
	}
	return f.status.ExitStatus()
}

// Signal sends a signal to its process group, unless it has ended.
func (f *ExecSession) Signal(signal syscall.Signal) error {
	f.closing.Lock()
	defer f.closing.Unlock()
	if f.over {
		return nil
	}
	return unix.Kill(-f.pid, signal)
}

func (f *ExecSession) conclude(status unix.WaitStatus) {
	f.closing.Lock()
	f.status, f.over = status, true
	f.closing.Unlock()
	close(f.done)
}

// joining is the way into a container, on one locked thread.
type joining struct {
	of      *joined
	what    ExecSpec
	process *fork.Process
	launch  launch
	order   *order

	home            home
	umask           int
	init            int // the container's first process, as a pidfd
	cgroups         int // its command's cgroup namespace; 0: the machine's
	root            int // the directory that its command has for one
	ids             int // its command's user namespace; 0: the machine's
	files           []int
	terminal, slave int
}

// run makes the process.
func (j *joining) run(f *ExecSession) *StartError {
	defer j.shed()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"join", own(j.open)}, {"join", own(j.enter)}, {"terminal", own(j.openTerminal)}, {"prepare", j.prepare},
		{"fork", own(j.process.Start)},
	} {
		if err := step.do(); err != nil {
			return fail(step.name, err)
		}
	}
	if f.pid, _ = j.process.Numbers(); j.what.Born != nil {
		j.what.Born(f.pid)
	}
	if err := j.home.enter(j.namespaces()); err != nil {
		return fail("come home", fault.OfMachine(err))
	}
	unix.Umask(j.umask)
	plan, err := j.launch.plan()
	if err != nil {
		return fail("rlimits", fault.OfMachine(err))
	}
	plan.Terminal = j.what.Terminal
	if _, err := j.process.Run(plan); err != nil {
		return fail("set-up", j.order.explain(err))
	}
	if j.terminal >= 0 {
		f.Terminal = os.NewFile(uintptr(j.terminal), "terminal")
		j.terminal = -1
	}
	return nil
}

// namespaces returns the namespaces that the thread enters and leaves again.
func (j *joining) namespaces() int {
	return (&maker{order: j.order}).namespaces() | unix.CLONE_NEWPID
}

// open opens at home all that is needed inside.
func (j *joining) open() error {
	spec := j.of.spec
	spec.Command = j.what.Command
	spec.Env = WithEnv(spec.Env, j.what.Env)
	j.order = j.of.order
	j.order.Spec = spec
	if err := j.openContainer(); err != nil {
		return err
	}
	order := fork.Order{Joined: true, IDs: j.ids, Cgroups: j.cgroups}
	for _, path := range j.order.Join {
		group, err := j.keep(openFile(path, unix.O_WRONLY, 0))
		if err != nil {
			return err
		}
		order.Joins = append(order.Joins, group)
	}
	if j.order.Leaf != "" {
		leaf, err := j.keep(openFile(j.order.Leaf, unix.O_PATH, 0))
		if err != nil {
			return err
		}
		order.Leaf = leaf
	}
	if err := j.chooseStreams(); err != nil {
		return err
	}
	j.launch.order, order.Stdio = j.order, j.launch.stdio
	if err := j.process.Prepare(order); err != nil {
		return err
	}
	var err error
	j.home, err = whereWeAre()
	return err
}

// openContainer finds the container's namespaces: those of its first process, and of its command, which has two of its
// own. A command that ends meanwhile takes the first process with it, and nothing can be forked there any more.
func (j *joining) openContainer() (err error) {
	command, first, err := j.of.first()
	if j.init, err = j.keep(first, err); err != nil {
		return err
	}
	if !j.order.Spec.NoInit {
		if command, err = firstChild(command); err != nil {
			return err
		}
	}
	if j.root, err = j.keep(openFile(fmt.Sprintf("/proc/%d/root", command), unix.O_PATH|unix.O_DIRECTORY, 0)); err != nil {
		return err
	}
	if len(j.order.Join) > 0 || j.order.Leaf != "" {
		if j.cgroups, err = j.keep(openFile(fmt.Sprintf("/proc/%d/ns/cgroup", command), unix.O_RDONLY, 0)); err != nil {
			return err
		}
	}
	if j.order.Spec.IDs != nil {
		if j.ids, err = j.keep(openFile(fmt.Sprintf("/proc/%d/ns/user", command), unix.O_RDONLY, 0)); err != nil {
			return err
		}
	}
	return unix.PidfdSendSignal(j.init, 0, nil, 0)
}

// firstChild is the command that an init looks after: it was there before any orphan.
func firstChild(pid int) (int, error) {
	text, err := readFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	child, err := strconv.Atoi(first)
	if err != nil {
		return 0, ErrNotFound
	}
	return child, nil
}

func dupFile(fd int) (file, error) {
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	return file(copied), err
}

// keep has a descriptor closed at the end.
func (j *joining) keep(opened file, err error) (int, error) {
	if err == nil {
		j.files = append(j.files, int(opened))
	}
	return int(opened), err
}

// enter brings the thread into the container.
func (j *joining) enter() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // The kernel lets nobody into other mounts who shares a root.
		return err
	}
	if timerSlack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0)
	}
	if err := unix.Setns(j.init, j.namespaces()); err != nil {
		return err
	}
	j.umask = unix.Umask(0o022)
	// The root of the namespace lies above that of the container (root.go), and in a chroot somewhere else.
	return errors.Join(unix.Fchdir(j.root), unix.Chroot("."), unix.Chdir("/"))
}

// openTerminal makes a terminal of the container's own.
func (j *joining) openTerminal() error {
	if !j.what.Terminal {
		return nil
	}
	opened, err := openFile("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	j.terminal = int(opened)
	if err := unix.IoctlSetPointerInt(j.terminal, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	slave, _, errno := syscall.Syscall(unix.SYS_IOCTL, opened.fd(), unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(slave))
	return unix.Dup3(int(slave), j.slave, unix.O_CLOEXEC)
}

func (f file) fd() uintptr { return uintptr(f) }

// prepare finds out who runs what, in there, and gets the process ready to be made.
func (j *joining) prepare() error {
	if failure := j.launch.prepare(); failure != nil {
		return failure
	}
	if j.slave >= 0 { // Programs open it by its name, as their user.
		owner := j.order.Spec.IDs.outside(j.launch.who.uid)
		if err := unix.Fchown(j.slave, int(owner), -1); err != nil {
			return fault.OfMachine(err)
		}
	}
	return nil
}

// chooseStreams decides what the process's streams are. The number of its terminal's far end is taken here already,
// where the process is prepared; the terminal is opened inside.
func (j *joining) chooseStreams() (err error) {
	if j.what.Terminal {
		if j.slave, err = j.keep(openFile(os.DevNull, unix.O_RDWR, 0)); err != nil {
			return err
		}
	}
	files := [3]*os.File{j.what.Stdin, j.what.Stdout, j.what.Stderr}
	for i, stream := range files {
		switch {
		case j.slave >= 0:
			j.launch.stdio[i] = uintptr(j.slave)
		case stream != nil:
			j.launch.stdio[i] = stream.Fd()
		default:
			return fmt.Errorf("stream %d is missing", i)
		}
	}
	return nil
}

// WithEnv is an environment with more in it. Of one name the first counts for most programs, so the former goes.
func WithEnv(env, more []string) []string {
	name := func(line string) string { n, _, _ := strings.Cut(line, "="); return n }
	kept := slices.DeleteFunc(slices.Clone(env), func(line string) bool {
		return slices.ContainsFunc(more, func(m string) bool { return name(m) == name(line) })
	})
	return append(kept, more...)
}

// shed closes what was only needed on the way.
func (j *joining) shed() {
	for _, fd := range j.files {
		unix.Close(fd)
	}
	if j.terminal >= 0 {
		unix.Close(j.terminal)
	}
	j.files, j.terminal = nil, -1
	j.home.close()
	j.home = nowhere
}
