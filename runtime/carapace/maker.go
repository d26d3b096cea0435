//go:build linux

package carapace

// This file makes a container. One thread of the starter enters the new namespaces, forks init, builds the root, and
// returns. The thread is locked and remains init's parent for the container's life, because init dies with this thread.
// While the thread is in the new namespaces, it must not pass work to another goroutine. That goroutine would run on a
// thread in the host's namespaces and change the host.

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace/fork"
	"github.com/yi-json/synapse/runtime/fault"
)

// making makes a container in this order: begin, run, wait, end. All methods except stop are called on one locked
// thread.
type making interface {
	// begin makes everything except the command.
	begin() *StartError
	// process returns the first process of the container. It is valid from begin to end.
	process() (pid, pidfd int)
	// run starts the command and returns the limits that are not enforced.
	run() (unenforced []string, failure *StartError)
	// wait waits for the end of all processes. byItself reports that the status is that of the command.
	wait() (status unix.WaitStatus, usage unix.Rusage, byItself bool)
	// stop kills the processes of the container. Any thread may call it.
	stop()
	// end frees all resources and ends running processes. It may be called at any time.
	end()
}

// maker makes a container with the rights of this process: those of root, or those of root in a user namespace.
type maker struct {
	order *order
	stdio [3]uintptr

	home   home
	umask  int
	init   *fork.Process
	files  []int // inherited by init only
	spaces *spaces
	launch launch
	// refusal is set if the command cannot run in the container.
	refusal *StartError
}

func newMaker(order *order, stdio [3]uintptr) *maker {
	return &maker{order: order, stdio: stdio, init: fork.New(), home: nowhere}
}

// onOwnThread runs do on a new thread that ends afterwards. The main thread cannot end. Also, /proc/self shows the
// namespaces of the main thread, which must not change for other threads.
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
		return nil // Without root, the thread cannot return, and has nothing more to do outside.
	}
	if err := m.home.enter(m.namespaces()); err != nil {
		return fail("return to the host's namespaces", fault.OfMachine(err))
	}
	unix.Umask(m.umask)
	m.home.close()
	m.home = nowhere
	return nil
}

// own wraps a step that does not depend on the job. If it fails, the node is at fault.
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

// open opens all files for init, and the descriptors for the way back.
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

// timerSlack is the timer slack of this process in nanoseconds. It is read on the main thread, which has the value of
// the parent process. Other threads may have another value and pass it on to threads that they create.
var timerSlack, _ = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)

func (m *maker) leaveHome() error {
	if timerSlack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) // All child processes inherit it from here.
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
	// From here on, the umask affects only this thread. Its files are readable for all, and by default so are the
	// files of the command.
	m.umask = unix.Umask(0o022)
	return unix.Chdir("/") // The pivot of the root moves processes whose working directory is the old root.
}

// build builds the root and sets the hostname.
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

// joinNetwork moves the calling thread into an existing network namespace.
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

// openPorts lets root of a user namespace listen on ports below 1024. It changes the network of the calling thread,
// which must belong to one job. It is needed because that root is not root of the network.
func openPorts(spec *Spec) error {
	if spec.IDs == nil || spec.Net == netHost {
		return nil
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
}

// raiseLoopback enables the loopback interface of a new network namespace.
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
		m.launch.unenforced = append(m.launch.unenforced, "check of the binary that the command executes: "+untraced.Error())
	}
	return m.launch.unenforced, nil
}

func (m *maker) wait() (unix.WaitStatus, unix.Rusage, bool) { return m.init.Wait() }

func (m *maker) stop() { m.init.Stop() }

// shed closes the descriptors that only init needs.
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
