//go:build linux && (reexec || !go1.26 || go1.27)

package fork

// The ordinary way to begin: the starter's own binary is executed once more, under a name that no user would give it.
// What such a process is it finds out before main. Its init is a Go program, with a runtime's threads; what becomes the
// command is another one, because a Go program cannot fork.
//
// Two things are done otherwise than by a fork. A Go program has several threads, and the kernel lets none of them into
// a user namespace; so the command's is born in one of its own, with the same numbers, and the limits that only the
// machine's root may raise are raised from outside. And it may be in the command's cgroup only when it needs no more
// threads, so it joins late.

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Way is how a first process begins.
const Way = "reexec"

// What this binary is called as which process.
const (
	nameInit    = "carapace-init"
	nameCommand = "carapace-command"
	nameHolder  = "carapace-holder"
)

// Where a process finds what it is given, behind stdin, stdout and stderr.
const (
	toldFd   = 3 // its birth, and what else it is told
	socketFd = 4
	joinsFd  = 5
)

// quiet is the environment of a Go program that has nothing to collect, nobody to report to, one thread that runs it
// and one that signals come by, none of them Go's own, and no interest in how many processors there are.
var quiet = []string{"GOMAXPROCS=2", "GOGC=off", "GOTRACEBACK=none",
	"GODEBUG=asyncpreemptoff=1,containermaxprocs=0,updatemaxprocs=0"}

// manner is what this way needs of a nest.
type manner struct{}

// init is the whole life of a binary that was executed for it. It is the main thread, as it has to be: only what that
// is and has goes over to what it executes.
func init() {
	if len(os.Args) != 1 {
		return
	}
	switch os.Args[0] {
	case nameHolder:
		for {
			_ = unix.Pause() // until it is killed
		}
	case nameInit, nameCommand:
		n, err := newNest()
		if err != nil {
			os.Exit(CodeFailed)
		}
		n.socket = toldFd
		receive(n, uintptr(unsafe.Pointer(&n.birth)), unsafe.Sizeof(n.birth))
		if os.Args[0] == nameInit {
			beInit(n)
		}
		beCommand(n)
	}
}

func beInit(n *nest) {
	if n.noInit {
		forgetHandlers(n)
	} else {
		signal.Notify(came) // What comes before there is a command waits for it.
	}
	if err := closeInherited(n); err != nil {
		refused(n, StepClose, err)
		refuse(n)
	}
	liveAsInit(n)
}

// came are signals for the command.
var came = make(chan os.Signal, lastSignal)

// closeInherited lets go of the starter's files but those that were meant for init. What Go's runtime has opened since
// is closed by an exec, which is how it is told from what has come over one.
func closeInherited(n *nest) error {
	files, err := os.ReadDir("/proc/self/fd")
	for _, file := range files {
		fd, _ := strconv.Atoi(file.Name())
		flags, gone := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		given := fd < 3 || fd >= socketFd && fd < joinsFd+int(n.joinsN)
		if gone == nil && flags&unix.FD_CLOEXEC == 0 && !given {
			unix.Close(fd)
		}
	}
	return err
}

// top is the root of the namespace, above that of the container.
var top int

// enterRoot goes from the root of the namespace into that of the container.
func enterRoot(n *nest) (ok bool) {
	var err error
	if top, err = unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		err = errors.Join(unix.Chroot("root"), unix.Chdir("/"))
	}
	return err == nil || refused(n, StepEnter, err)
}

// closeAllBut closes every descriptor but the socket and those of Go's runtime.
func closeAllBut(n *nest) {
	unix.Close(int(n.proc))
	unix.Close(top)
	for fd := range joinsFd + int(n.joinsN) {
		if fd != socketFd && fd != toldFd {
			unix.Close(fd)
		}
	}
}

// beCommand is told by init what its command is. It has no use for a handler of Go's any more, and for no other thread.
func beCommand(n *nest) {
	forgetHandlers(n)
	socket := n.socket
	n.socket = toldFd
	hearPlan(n)
	n.socket = socket
	if n.span.N > 0 {
		dropInherited()
	}
	if n.hidden {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	landPlan(n)
	liveAsCommand(n)
}

// dropInherited takes back the form in which all capabilities came over the exec into a new user namespace, in which
// this process is nobody yet. It keeps them until its own exec.
func dropInherited() {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if unix.Capget(&header, &sets[0]) == nil {
		sets[0].Inheritable, sets[1].Inheritable = 0, 0 // and with them the ambient ones
		_ = unix.Capset(&header, &sets[0])
	}
}

// ready has v2's cgroup joined as those of v1 are.
func (p *Process) ready() error {
	n := p.nest
	if n.joined {
		return ErrCannotJoin
	}
	joins := p.order.Joins
	if p.order.Leaf > 0 {
		processes, err := unix.Openat(p.order.Leaf, "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("cgroup.procs: %w", err)
		}
		p.copies = append(p.copies, processes)
		joins = append(joins[:len(joins):len(joins)], processes)
	}
	for i, fd := range joins {
		n.joins[i], n.joinsN = uintptr(fd), uintptr(i+1)
	}
	if p.order.IDs != nil {
		if n.span = p.order.IDs.own; n.noInit {
			return errors.New("root of its own needs an init in a program whose first processes are executed again")
		}
	}
	return nil
}

func (p *Process) begin() (pid, pidfd int, err error) {
	attributes := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, PidFD: &pidfd}
	pid, told, err := p.nest.execute("/proc/self/exe", nameInit, attributes)
	if err == nil {
		unix.Close(int(told))
	}
	return pid, pidfd, err
}

// execute makes a process of this binary, and tells it its birth. What else it is to know is told by the same way.
func (n *nest) execute(path, name string, attributes *syscall.SysProcAttr) (pid int, told Channel, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, -1, err
	}
	defer unix.Close(pair[1])
	files := append([]uintptr{n.stdio[0], n.stdio[1], n.stdio[2], uintptr(pair[1]), n.socket}, n.joins[:n.joinsN]...)
	pid, err = syscall.ForkExec(path, []string{name}, &syscall.ProcAttr{Env: quiet, Files: files, Sys: attributes})
	if err != nil {
		unix.Close(pair[0])
		return 0, -1, err
	}
	born := n.birth
	born.socket, born.stdio = socketFd, [3]uintptr{0, 1, 2}
	for i := range born.joinsN {
		born.joins[i] = joinsFd + i
	}
	told = Channel(pair[0])
	_, _ = told.Write(bytesOf(&born, 1)) // A process that no longer receives it is waited for anyway.
	return pid, told, nil
}

// forkCommand makes the process that becomes the command, and tells it what that is.
func forkCommand(n *nest) bool {
	var attributes syscall.SysProcAttr
	var limits [len(shared)]unix.Rlimit
	if n.span.N > 0 {
		// The kernel lets nobody make a user namespace in a chroot. The process enters its own by itself.
		if err := errors.Join(unix.Fchdir(top), unix.Chroot(".")); err != nil {
			return refused(n, StepIDs, err)
		}
		defer unix.Chroot("/root")
		attributes.Cloneflags, attributes.Chroot = unix.CLONE_NEWUSER, "/root"
		for number := range uintptr(unix.CAP_LAST_CAP + 1) {
			attributes.AmbientCaps = append(attributes.AmbientCaps, number)
		}
		for i, number := range shared {
			_ = unix.Prlimit(0, number, nil, &limits[i])
			_ = unix.Prlimit(0, number, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil)
		}
	}
	if err := unix.Fchdir(int(n.proc)); err != nil { // No path of the container's leads to our binary for certain.
		return refused(n, StepFork, err)
	}
	pid, told, err := n.execute("self/exe", nameCommand, &attributes)
	if err != nil {
		return refused(n, StepFork, err)
	}
	defer unix.Close(int(told))
	if n.pid = uintptr(pid); n.span.N > 0 {
		for i, number := range shared {
			_ = unix.Prlimit(pid, number, &limits[i], nil)
		}
		if err := admit(n); err != nil {
			return refused(n, StepIDs, err)
		}
	}
	_, _ = told.Write(bytesOf(&n.plan, 1))
	_, _ = told.Write(bytesOf(&n.data[0], len(n.data))[:n.plan.length])
	if !n.traced {
		_, _ = told.Read(make([]byte, 1)) // Its exec closes the other end, or its own end, of which it has told the starter.
	}
	return true
}

// shared are the limits by which the kernel bounds what all users of a namespace may lock and run together: those of
// its maker, which has none.
var shared = [...]int{unix.RLIMIT_NPROC, unix.RLIMIT_MEMLOCK, unix.RLIMIT_SIGPENDING, unix.RLIMIT_MSGQUEUE}

// admit gives the command's process the numbers of its user namespace, and the limits that it may not raise by itself
// any more. It sets them again, and tells which it cannot have.
func admit(n *nest) error {
	text := mapOf([]Span{n.span})
	for _, name := range []string{"/uid_map", "/gid_map"} {
		at, err := unix.Openat(int(n.proc), strconv.Itoa(int(n.pid))+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_, err = unix.Write(at, text)
		unix.Close(at)
		if err != nil {
			return err
		}
	}
	for _, limit := range n.plan.limits[:n.plan.limitsN] {
		_ = unix.Prlimit(int(n.pid), int(limit.number), &unix.Rlimit{Cur: limit.soft, Max: limit.hard}, nil)
	}
	return nil
}

func refused(n *nest, step Step, err error) bool {
	errno := unix.EIO
	_ = errors.As(err, &errno)
	return failed(n, step, 0, errno)
}

// enterIDs has nothing to do: this process was born there.
func enterIDs(*nest) bool { return true }

// lookAfterCommand passes signals on and reaps, until the command has ended. What still lives then dies with init. It
// reaps on the thread that is the parent of all: only that one may let go of a process that says it is traced by its
// parent.
func lookAfterCommand(n *nest) {
	go func() {
		for s := range came {
			number, _ := s.(syscall.Signal)
			if number != unix.SIGCHLD && stopSignals&(1<<(number-1)) == 0 {
				_ = unix.Kill(int(n.pid), number)
			}
		}
	}()
	for {
		reapOne(n, 0)
	}
}

// makeSpace makes a user namespace, by a process that is made in it and ends when it is open here.
func makeSpace(uids, gids []Span) (int, error) {
	attributes := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, Pdeathsig: unix.SIGKILL,
		UidMappings: mappings(uids), GidMappings: mappings(gids)}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{nameHolder}, &syscall.ProcAttr{Env: quiet, Sys: attributes})
	if err != nil {
		return -1, err
	}
	defer func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
				return
			}
		}
	}()
	return unix.Open(fmt.Sprintf("/proc/%d/ns/user", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

func mappings(spans []Span) (maps []syscall.SysProcIDMap) {
	for _, s := range spans {
		maps = append(maps, syscall.SysProcIDMap{ContainerID: int(s.Inside), HostID: int(s.Outside), Size: int(s.N)})
	}
	return maps
}
