//go:build linux

package carapace

// This file runs exec sessions in a running container. A session starts like the command (launch.go, fork/command.go).
// One thread enters the container's namespaces, looks up the user and the program there, forks, and returns. The
// process is in the container's cgroups and pid namespace, so it counts for the container and ends with it. It is not a
// child of the container's init, and its exit code does not affect the container.

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

// ExecSpec describes an exec session. Unset fields have the values of the container's command.
type ExecSpec struct {
	Command []string `json:"command"`
	Env     []string `json:"env,omitempty"` // added to the container's own; replaces those of the same names
	// Terminal requests a terminal of the container. Without it, the process gets the three streams directly.
	Terminal              bool     `json:"terminal,omitempty"`
	Stdin, Stdout, Stderr *os.File `json:"-"`
	// Born is called with the process's pid before the process can end. A starter that reaps all its children must
	// leave this one to the thread that waits for it.
	Born func(pid int) `json:"-"`
}

// ExecSession is a running or finished exec session.
type ExecSession struct {
	// Terminal is the caller's end of the terminal, which the caller must close; nil: there is none.
	Terminal *os.File

	pid     int
	closing sync.Mutex // prevents signals to a pid that may be reused
	over    bool
	done    chan struct{}
	status  unix.WaitStatus
}

// ErrNoExec reports a container that cannot run exec sessions.
var ErrNoExec = errors.New("exec sessions are not possible in a container made by a user other than root")

// Exec runs an exec session in the container. It returns when the process runs, or with a *StartError.
func (c *Container) Exec(what ExecSpec) (*ExecSession, error) {
	return execIn(&joined{spec: c.spec, order: c.order(nil), first: c.first}, what)
}

// first returns the container's first process unless the container is being ended.
func (c *Container) first() (pid int, pidfd file, err error) {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed || c.killed {
		return 0, -1, ErrNotFound
	}
	pidfd, err = dupFile(c.pidfd)
	return c.pid, pidfd, err
}

// Made describes a container that another program made from a Spec.
type Made struct {
	Spec   Spec
	Pid    int      // of its first process, which is its command …
	PidFD  int      // … and a pidfd of that process, which the caller closes
	Leaves []string // its existing cgroups
}

// Exec runs an exec session in such a container.
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

// joined describes a container to an exec session.
type joined struct {
	spec  Spec
	order *order
	first func() (pid int, pidfd file, err error)
}

func execIn(into *joined, what ExecSpec) (*ExecSession, error) {
	if len(what.Command) == 0 || what.Command[0] == "" {
		return nil, fail("command", errors.New("is empty; name a program"))
	}
	if os.Geteuid() != 0 {
		return nil, fail("join", ErrNoExec)
	}
	f := &ExecSession{done: make(chan struct{})}
	answer := make(chan *StartError, 1)
	onOwnThread(func() { // The process dies with this thread, so the thread waits for it here.
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

// Pid returns the pid of the process as this process sees it.
func (f *ExecSession) Pid() int { return f.pid }

// Done returns a channel that closes when the process has ended. Its remaining children continue as part of the
// container.
func (f *ExecSession) Done() <-chan struct{} { return f.done }

// Code returns the exit code in the form of a shell. It is valid after Done.
func (f *ExecSession) Code() int {
	if f.status.Signaled() {
		return codeSignal + int(f.status.Signal())
	}
	return f.status.ExitStatus()
}

// Signal sends a signal to the process group, unless the process has ended.
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

// joining enters a container on one locked thread.
type joining struct {
	of      *joined
	what    ExecSpec
	process *fork.Process
	launch  launch
	order   *order

	home            home
	umask           int
	init            int // the container's first process, as a pidfd
	cgroups         int // the cgroup namespace of the container's command; 0: the host's
	root            int // the root directory of the container's command
	ids             int // the user namespace of the container's command; 0: the host's
	files           []int
	terminal, slave int
}

// run creates the process.
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
		return fail("return to the host's namespaces", fault.OfMachine(err))
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

// open opens, outside of the container, all files that are needed inside.
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

// openContainer finds the container's namespaces: those of its first process, and two separate ones of its command. If
// the command ends meanwhile, the first process ends too, and the later fork fails.
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

// firstChild returns the command of an init, which is its first child and older than any orphan.
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

// keep registers a descriptor that is closed at the end.
func (j *joining) keep(opened file, err error) (int, error) {
	if err == nil {
		j.files = append(j.files, int(opened))
	}
	return int(opened), err
}

// enter moves the thread into the container.
func (j *joining) enter() error {
	// The kernel does not let a thread with a shared root enter other mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if timerSlack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0)
	}
	if err := unix.Setns(j.init, j.namespaces()); err != nil {
		return err
	}
	j.umask = unix.Umask(0o022)
	// The root of the namespace is above that of the container (root.go), and in a chroot elsewhere.
	return errors.Join(unix.Fchdir(j.root), unix.Chroot("."), unix.Chdir("/"))
}

// openTerminal makes a terminal in the container.
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

// prepare looks up the user and the program inside the container, and prepares the fork.
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

// chooseStreams sets the streams of the process. It reserves the descriptor of the terminal's far end now, because the
// fork is prepared here. The terminal is opened later, inside the container.
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

// WithEnv returns an environment with additional variables, which replace those of the same name. For most programs,
// the first entry of a name counts.
func WithEnv(env, more []string) []string {
	name := func(line string) string { n, _, _ := strings.Cut(line, "="); return n }
	kept := slices.DeleteFunc(slices.Clone(env), func(line string) bool {
		return slices.ContainsFunc(more, func(m string) bool { return name(m) == name(line) })
	})
	return append(kept, more...)
}

// shed closes the descriptors that are no longer needed.
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
