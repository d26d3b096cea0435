//go:build linux

package carapace

// Making a container: one thread of the starter goes into the new namespaces, forks init, builds the root around it,
// and goes home. The thread is locked and stays init's parent as long as the container lives, because init dies with
// it. While it is away nothing may be handed to another goroutine: that would run on a thread which is at home, and do
// to the machine what is meant for the container.

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace/fork"
	"github.com/yi-json/synapse/runtime/fault"
)

// making is how a container comes to be, in this order: begin, run, wait, end. All but stop are called on one locked
// thread.
type making interface {
	// begin makes everything but the command.
	begin() *StartError
	// process is the container's first one, from begin to end.
	process() (pid, pidfd int)
	// run runs the command, and answers what it goes without.
	run() (unenforced []string, failure *StartError)
	// wait waits for the end of all processes. byItself: the command's own end is what is told.
	wait() (status unix.WaitStatus, usage unix.Rusage, byItself bool)
	// stop kills what there is of it, from any thread.
	stop()
	// end gives back what is left: it may be called at any time, and ends what still runs.
	end()
}

// maker makes a container with the rights that this process has: root's, or those of a user namespace's root.
type maker struct {
	order *order
	stdio [3]uintptr

	home   home
	umask  int
	init   *fork.Process
	files  []int // only for init to have
	spaces *spaces
	launch launch
	// refusal is why there is no command to run in what was made.
	refusal *StartError
}

func newMaker(order *order, stdio [3]uintptr) *maker {
	return &maker{order: order, stdio: stdio, init: fork.New(), home: nowhere}
}

// onOwnThread runs something on a thread of its own, which ends with it. The main thread cannot end; and what
// /proc/self tells is the main thread's view of the machine, which must not change for all others.
func onOwnThread(do func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			do()
			return
		}
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(locked)
			do()
		}()
		<-locked
		runtime.UnlockOSThread()
	}()
}

func (m *maker) begin() *StartError {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"start", own(m.open)}, {"create namespaces", own(m.leaveHome)}, {"create namespaces", own(m.init.Start)},
		{"root", m.build},
	} {
		if err := step.do(); err != nil {
			return fail(step.name, err)
		}
	}
	m.refusal = m.launch.prepare()
	if m.order.Rootless {
		return nil // It has no right to come home, and nothing to do there.
	}
	if err := m.home.enter(m.namespaces()); err != nil {
		return fail("come home", fault.OfMachine(err))
	}
	unix.Umask(m.umask)
	m.home.close()
	m.home = nowhere
	return nil
}

// own is a step in which nothing is done that a job names: it fails by the machine's fault.
func own(step func() error) func() error {
	return func() error { return fault.OfMachine(step()) }
}

func (m *maker) namespaces() int {
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	if m.order.Spec.Net != netHost {
		flags |= unix.CLONE_NEWNET
	}
	return flags
}

// open opens all that init is to have, and what the way home is found by.
func (m *maker) open() (err error) {
	order := fork.Order{Stdio: m.stdio, NoInit: m.order.Spec.NoInit, Rootless: m.order.Rootless}
	for _, path := range m.order.Join {
		group, err := m.inherited(path, unix.O_WRONLY)
		if err != nil {
			return err
		}
		order.Joins = append(order.Joins, group)
	}
	if m.order.Leaf != "" {
		if order.Leaf, err = m.inherited(m.order.Leaf, unix.O_PATH); err != nil {
			return err
		}
	}
	if m.spaces, err = newSpaces(m.order.Spec.IDs); err != nil {
		return err
	}
	if m.spaces != nil {
		order.IDs = m.spaces.own
	}
	if err := m.init.Prepare(order); err != nil {
		return err
	}
	m.home, err = whereWeAre()
	return err
}

func (m *maker) inherited(path string, flags int) (int, error) {
	opened, err := openFile(path, flags, 0)
	if err == nil {
		m.files = append(m.files, int(opened))
	}
	return int(opened), err
}

// timerSlack is how late this process may be woken, in nanoseconds. Its main thread, on which this is found out, has it
// from the process that started us; other threads may have been given another one, and hand it on to those they make.
var timerSlack, _ = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)

func (m *maker) leaveHome() error {
	if timerSlack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) // All that we make has it from here.
	}
	making := m.namespaces()
	if m.order.Spec.joins() {
		making &^= unix.CLONE_NEWNET
		if err := joinNetwork(m.order.Spec.Net); err != nil {
			return err
		}
	}
	if err := unix.Unshare(making); err != nil {
		return err
	}
	if err := openPorts(&m.order.Spec); err != nil {
		m.launch.unenforced = append(m.launch.unenforced, "ports below 1024: "+err.Error())
	}
	// From here on it belongs to this thread alone. What it makes is for all to read, and so is what the command makes by
	// default.
	m.umask = unix.Umask(0o022)
	return unix.Chdir("/") // The pivot of the root takes along processes that are at the old one.
}

// build builds the root, and gives the host its name.
func (m *maker) build() error {
	r := &root{spec: &m.order.Spec, order: m.order, init: m.init, spaces: m.spaces}
	if err := r.build(); err != nil {
		return err
	}
	m.launch.order, m.launch.stdio, m.launch.own = m.order, m.stdio, r.own
	if name := m.order.Spec.Hostname; name != "" {
		if err := unix.Sethostname([]byte(name)); err != nil {
			return fail("hostname", fault.OfMachine(err))
		}
	}
	if m.order.Spec.Net == NetNone {
		if err := raiseLoopback(); err != nil {
			return fail("loopback", fault.OfMachine(err))
		}
	}
	return nil
}

// joinNetwork brings the calling thread into a network that somebody made.
func joinNetwork(path string) error {
	namespace, err := openFile(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("network %s: %w", path, err)
	}
	return nil
}

// openPorts lets root of a user namespace serve the ports below 1024 of the network that the calling thread is in,
// which belongs to its job alone, where it is not root of the network.
func openPorts(spec *Spec) error {
	if spec.IDs == nil || spec.Net == netHost {
		return nil
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
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

func (m *maker) process() (pid, pidfd int) { return m.init.Numbers() }

func (m *maker) run() ([]string, *StartError) {
	if m.refusal != nil {
		return nil, m.refusal
	}
	plan, err := m.launch.plan()
	if err != nil {
		return nil, fail("rlimits", fault.OfMachine(err))
	}
	defer m.shed()
	untraced, err := m.init.Run(plan)
	if err != nil {
		return nil, fail("set-up", m.order.explain(err))
	}
	if untraced != nil {
		m.launch.unenforced = append(m.launch.unenforced, "a look at the binary that the command executes: "+untraced.Error())
	}
	return m.launch.unenforced, nil
}

func (m *maker) wait() (unix.WaitStatus, unix.Rusage, bool) { return m.init.Wait() }

func (m *maker) stop() { m.init.Stop() }

// shed lets go of what only init was to have.
func (m *maker) shed() {
	for _, fd := range m.files {
		unix.Close(fd)
	}
	m.files = nil
	m.spaces.close()
	m.spaces = nil
}

func (m *maker) end() {
	m.init.End()
	m.home.close()
	m.home = nowhere
	m.shed()
}
