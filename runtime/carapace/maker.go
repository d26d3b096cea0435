//go:build linux

// Making a container: one thread of the starter goes into the new namespaces, forks init, builds the root around it, and goes
// home. The thread is locked and stays init's parent as long as the container lives, because init dies with it. While it is
// away nothing may be handed to another goroutine: that would run on a thread which is at home, and do to the machine
// what is meant for the container.
package carapace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
)

// making is how a container comes to be, in this order: begin, run, wait, end. All but stop are called on one locked thread.
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
	socket channel
	theirs int
	files  []int // only to be inherited
	nest   *nest
	spaces *spaces
	launch launch
	// refusal is why there is no command to run in what was made.
	refusal *StartError
	pid     int
	pidfd   atomic.Int64 // zero is none
	status  *unix.WaitStatus
	usage   unix.Rusage
}

func newMaker(order *order, stdio [3]uintptr) *maker {
	return &maker{order: order, stdio: stdio, socket: -1, theirs: -1, home: nowhere}
}

// onOwnThread runs something on a thread of its own, which ends with it. The main thread cannot end; and what /proc/self tells
// is the main thread's view of the machine, which must not change for all others.
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
	}{{"start", own(m.open)}, {"create namespaces", own(m.leaveHome)}, {"create namespaces", own(m.fork)}, {"root", m.build}} {
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
func (m *maker) open() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	m.socket = channel(pair[0])
	if m.theirs, err = aboveStdio(pair[1]); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if m.nest, err = newNest(); err != nil {
		return err
	}
	n := m.nest
	n.socket, n.noInit, n.hidden, n.traced = uintptr(m.theirs), m.order.Spec.NoInit, !m.order.Rootless, !m.order.Rootless
	for place, fd := range m.stdio {
		if fd < 3 && fd != uintptr(place) { // Else it would be overwritten on its way to its place.
			copied, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
			if err != nil {
				return fmt.Errorf("stdio: %w", err)
			}
			m.files, fd = append(m.files, copied), uintptr(copied)
		}
		n.stdio[place] = fd
	}
	for i, path := range m.order.Join {
		fd, err := m.inherited(path, unix.O_WRONLY)
		if err != nil {
			return err
		}
		n.joins[i], n.joinsN = uintptr(fd), uintptr(i+1)
	}
	n.clone.exitSignal, n.cloneCommand.exitSignal = uint64(unix.SIGCHLD), uint64(unix.SIGCHLD)
	n.clone.flags, n.cloneCommand.flags = unix.CLONE_NEWPID|unix.CLONE_PIDFD, cloneVfork
	if m.order.Leaf != "" {
		leaf, err := m.inherited(m.order.Leaf, unix.O_PATH)
		if err != nil {
			return err
		}
		born := &n.cloneCommand
		if n.noInit {
			born = &n.clone
		}
		born.flags, born.cgroup = born.flags|cloneIntoCgroup, uint64(leaf)
	}
	if m.spaces, err = newSpaces(m.order.Spec.IDs); err != nil {
		return err
	}
	if m.spaces != nil {
		n.ids = uintptr(m.spaces.own)
	}
	n.keep(append([]uintptr{n.socket, n.ids, uintptr(n.cloneCommand.cgroup)}, append(n.stdio[:], n.joins[:]...)...)...)
	if n.traced {
		if n.exeMount, err = mountOfBinary("self"); err != nil {
			return fmt.Errorf("own binary: %w", err)
		}
	}
	m.home, err = whereWeAre()
	return err
}

func (m *maker) inherited(path string, flags int) (int, error) {
	opened, err := openFile(path, flags, 0)
	if err != nil {
		return -1, err
	}
	fd, err := aboveStdio(int(opened))
	if err == nil {
		m.files = append(m.files, fd)
	}
	return fd, err
}

// aboveStdio moves a descriptor out of the streams' places, where one is opened if a starter has closed its own.
func aboveStdio(fd int) (int, error) {
	if fd >= 3 {
		return fd, nil
	}
	defer unix.Close(fd)
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
}

// mountOfBinary answers which mount a process's binary was executed from. A mount keeps its number for as long.
func mountOfBinary(process string) (uint64, error) {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, filepath.Join("/proc", process, "exe"), 0, unix.STATX_MNT_ID, &stat)
	if err == nil && stat.Mask&unix.STATX_MNT_ID == 0 {
		err = errors.New("the kernel does not tell its mount: Linux 5.12 or newer is needed")
	}
	return stat.Mnt_id, err
}

// timerSlack is how late this process may be woken, in nanoseconds. Its main thread, on which this is found out, has it from who
// started us; other threads may have been given another one, and hand it on to those they make.
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
	// From here on it is this thread's alone. What it makes is for all to read, and so is what the command makes by default.
	m.umask = unix.Umask(0o022)
	return unix.Chdir("/") // The pivot of the root takes along who is at the old one.
}

func (m *maker) fork() error {
	pid, err := m.nest.fork()
	unix.Close(m.theirs)
	m.theirs = -1
	if err != nil {
		return err
	}
	m.pid = pid
	m.pidfd.Store(int64(m.nest.pidfd))
	return nil
}

// build builds the root, and gives the host its name.
func (m *maker) build() error {
	r := &root{spec: &m.order.Spec, order: m.order, init: m, spaces: m.spaces}
	if err := r.build(); err != nil {
		return err
	}
	m.launch.order, m.launch.stdio, m.launch.own = m.order, m.nest.stdio, r.own
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

// takeProc waits for init's mount of /proc.
func (m *maker) takeProc() (int, error) {
	var text [recordBytes]byte
	var control [64]byte
	n, controlN, _, _, err := unix.Recvmsg(int(m.socket), text[:], control[:], unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, controlN, _, _, err = unix.Recvmsg(int(m.socket), text[:], control[:], unix.MSG_CMSG_CLOEXEC)
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return -1, m.mourn(err)
	}
	if said := recordOf(text); said.kind == recordFailed {
		return -1, m.explain(said)
	}
	messages, err := unix.ParseSocketControlMessage(control[:controlN])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("mount of /proc from init: %d messages, %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("mount of /proc from init: %d descriptors, %w", len(fds), err)
	}
	return fds[0], nil
}

// pivoted tells init that the namespace's root is the container's now.
func (m *maker) pivoted() error {
	_, err := m.socket.Write([]byte{1})
	return err
}

func recordOf(text [recordBytes]byte) (said record) {
	copy(bytesOf(&said, 1), text[:])
	return said
}

// hear waits for init's next word.
func (m *maker) hear() (record, error) {
	var text [recordBytes]byte
	_, err := io.ReadFull(m.socket, text[:])
	return recordOf(text), err
}

func (m *maker) explain(said record) *StartError {
	return explain(said, &m.order.Spec, m.order.Join)
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

// openPorts lets root of a user namespace serve the ports below 1024 of the network that the calling thread is in, which is its
// job's alone, where it is not root of the network.
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
