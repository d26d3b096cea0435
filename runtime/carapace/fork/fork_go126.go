//go:build linux && go1.26 && !go1.27 && !reexec

package fork

// Forking without executing. The child of fork is a copy of this process with one thread, on which Go's runtime is
// dead: its locks may be held by threads that are not there, and its collector may have stood in the middle of its
// work. So what runs in the child (init.go, command.go, and what stands last here) makes system calls and nothing else.
// It allocates nothing, grows no stack, writes no pointer, and may not panic. All it needs lies in a nest, which was
// filled before, or comes over a socket.
//
// What it takes from Go are two functions of the runtime, that a function marked so grows no stack, and where stacks
// lie. A new version of Go gets this file when `make test` and `make race` have passed with it (CONTRIBUTING.md); until
// then it has reexec.go.

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Way is how a first process begins.
const Way = "fork"

// beforeFork and afterFork are those by which package syscall forks.
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

// cloneArguments is struct clone_args of the kernel.
type cloneArguments struct {
	flags, pidfd, childTid, parentTid, exitSignal, stack, stackSize, tls, setTid, setTidSize, cgroup uint64
}

const (
	maxKept         = maxJoins + 8
	cloneIntoCgroup = 0x200000000
	minStackBytes   = 4096 // five times what a chain of functions takes that may grow no stack
)

// manner is what a fork needs of its nest.
type manner struct {
	clone, cloneCommand cloneArguments

	pidfd    int32            // of init, written by the kernel for the starter
	kept     [maxKept]uintptr // every descriptor that outlives the fork, from 3 on, rising
	keptN    uintptr
	views    [3][2]uintptr // of memory: where code, stack and nest lie, rising
	holdsIDs bool          // whether this is no init, but holds a user namespace until that is open elsewhere
	unbound  [2]uint64     // struct rlimit64, no limit
}

// ready fills the nest with what the order says.
func (p *Process) ready() error {
	n := p.nest
	for i, fd := range p.order.Joins {
		n.joins[i], n.joinsN = uintptr(fd), uintptr(i+1)
	}
	if p.order.IDs != nil {
		n.ids = uintptr(p.order.IDs.FD)
	}
	n.clone.exitSignal, n.cloneCommand.exitSignal = uint64(unix.SIGCHLD), uint64(unix.SIGCHLD)
	n.clone.flags, n.cloneCommand.flags = unix.CLONE_NEWPID, unix.CLONE_VFORK
	if n.joined {
		n.clone.flags = 0 // the thread has chosen whose namespace its children are in
	}
	if p.order.Leaf > 0 {
		born := &n.cloneCommand
		if n.noInit {
			born = &n.clone
		}
		born.flags, born.cgroup = born.flags|cloneIntoCgroup, uint64(p.order.Leaf)
	}
	kept := []uintptr{n.socket, n.ids, n.cgroups, uintptr(n.cloneCommand.cgroup)}
	n.keep(slices.Concat(kept, n.stdio[:], n.joins[:])...)
	return nil
}

// keep names the descriptors that are to outlive the fork.
func (n *nest) keep(fds ...uintptr) {
	fds = slices.DeleteFunc(fds, func(fd uintptr) bool { return fd < 3 })
	slices.Sort(fds)
	n.keptN = uintptr(copy(n.kept[:], slices.Compact(fds)))
}

func (p *Process) begin() (pid, pidfd int, err error) { return p.nest.fork() }

// seeMemory notes where code, stack and nest are: all of a starter's memory that init is to have.
func (n *nest) seeMemory(stack uintptr) {
	const binary = 512 << 20 // Code and data of a binary lie together, and are less.
	page := uintptr(os.Getpagesize())
	code := reflect.ValueOf(liveAsInit).Pointer() &^ (page - 1)
	own := uintptr(unsafe.Pointer(n)) &^ (page - 1)
	stack &^= page - 1
	n.views = [3][2]uintptr{
		{code - min(code, binary), code + binary},
		{stack - 2*page, stack + 2*page}, // Two below: this may be the end of one, and the functions of init lie deeper.
		{own, (own + unsafe.Sizeof(*n) + 2*page) &^ (page - 1)},
	}
	slices.SortFunc(n.views[:], func(a, b [2]uintptr) int { return cmp.Compare(a[0], b[0]) })
}

// advise tells the kernel about all memory but the views.
func (n *nest) advise(advice uintptr) error {
	low := uintptr(0)
	for i := range len(n.views) + 1 {
		high := ^uintptr(0) &^ uintptr(os.Getpagesize()-1)
		if i < len(n.views) {
			high = n.views[i][0]
		}
		if high > low {
			// It says that there are gaps between the mappings, and goes on behind them.
			if _, _, errno := syscall.RawSyscall(unix.SYS_MADVISE, low, high-low, advice); errno != 0 && errno != unix.ENOMEM {
				return fmt.Errorf("madvise: %w", errno)
			}
		}
		if i < len(n.views) {
			low = max(low, n.views[i][1])
		}
	}
	return nil
}

// fork makes the child, which never comes back from here. The thread must be locked: the child is one of its own, and
// is killed when it ends.
//
// The heap of a starter is not init's to hold on to, so the child does not get it. That also spares the copying of page
// tables, and a starter's other threads the interrupt for every page that one of them writes to afterwards.
func (n *nest) fork() (pid, pidfd int, err error) {
	n.clone.flags, n.clone.pidfd = n.clone.flags|unix.CLONE_PIDFD, uint64(uintptr(unsafe.Pointer(&n.pidfd)))
	if !letsGoOfMemory {
		pid, err = n.forkHere(false)
		return pid, int(n.pidfd), err
	}
	// Another goroutine's fork is to have all memory. Package syscall shares it instead of copying, but not in each case.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	for range maxMoves {
		var here uintptr
		n.seeMemory(uintptr(unsafe.Pointer(&here)))
		if err = n.advise(unix.MADV_DONTFORK); err == nil {
			pid, err = n.forkHere(true)
		}
		// It stops at the kernel's own mapping, which no fork of ours needs, nor what lies behind: the main thread's stack.
		_ = n.advise(unix.MADV_DOFORK)
		if err != errMoved {
			break
		}
	}
	return pid, int(n.pidfd), err
}

// errMoved is a stack that is no longer where it was seen: it had to grow. It does so a few times at most.
var errMoved = errors.New("the stack has moved")

const maxMoves = 16

//go:noinline
//go:norace
//go:nocheckptr
func (n *nest) forkHere(seen bool) (pid int, err error) {
	var here uintptr
	beforeFork() // All signals are blocked from here on, in the child for good; and no stack moves.
	if seen && !n.sees(uintptr(unsafe.Pointer(&here))) {
		afterFork()
		return 0, errMoved
	}
	got, _, errno := syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&n.clone)), unsafe.Sizeof(n.clone), 0,
		0, 0, 0)
	if errno == 0 && got == 0 {
		live(n)
	}
	afterFork()
	if errno != 0 {
		return 0, errno
	}
	return int(got), nil
}

// sees reports whether init will have the memory at an address, and the page below.
//
//go:nosplit
func (n *nest) sees(address uintptr) bool {
	for i := range n.views {
		if n.views[i][0]+minStackBytes <= address && address < n.views[i][1] {
			return true
		}
	}
	return false
}

// live is the fork's whole life.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func live(n *nest) {
	if !closeFiles(n) {
		refuse(n)
	}
	forgetHandlers(n)
	if n.holdsIDs {
		liveAsHolder(n)
	}
	liveAsInit(n)
}

// closeFiles lets go of the starter's files, before all else: among them are those of other containers, whose ends are
// waited for.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func closeFiles(n *nest) bool {
	from := uintptr(3)
	for i := uintptr(0); i < n.keptN; i++ {
		if n.kept[i] > from {
			syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, from, n.kept[i]-1, 0, 0, 0, 0)
		}
		from = n.kept[i] + 1
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, from, 1<<32-1, 0, 0, 0, 0)
	if errno != 0 {
		return failed(n, StepClose, 0, errno)
	}
	return true
}

// closeAllBut closes every descriptor but the socket.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func closeAllBut(n *nest) {
	syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, 0, n.socket-1, 0, 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, n.socket+1, 1<<32-1, 0, 0, 0, 0)
}

// enterRoot goes from the root of the namespace into that of the container.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func enterRoot(n *nest) bool {
	_, _, errno := syscall.RawSyscall6(unix.SYS_CHROOT, uintptr(unsafe.Pointer(&n.names.root)), 0, 0, 0, 0, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall6(unix.SYS_CHDIR, uintptr(unsafe.Pointer(&n.names.top)), 0, 0, 0, 0, 0)
	}
	if errno != 0 {
		return failed(n, StepEnter, 0, errno)
	}
	return true
}

// forkCommand makes the process that becomes the command.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func forkCommand(n *nest) bool {
	var errno syscall.Errno
	n.pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&n.cloneCommand)),
		unsafe.Sizeof(n.cloneCommand), 0, 0, 0, 0)
	if errno != 0 {
		return failed(n, StepFork, 0, errno)
	}
	if n.pid == 0 {
		landPlan(n)
		liveAsCommand(n)
	}
	return true
}

// enterIDs goes into the user namespace, for good. All capabilities that it has from here on are over that and nothing
// else. It comes after what takes things from the machine, and before what is taken from it: whoever enters has them
// all.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func enterIDs(n *nest) bool {
	if n.ids == 0 {
		return true
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SETNS, n.ids, unix.CLONE_NEWUSER, 0, 0, 0, 0); errno != 0 {
		return failed(n, StepIDs, 0, errno)
	}
	return true
}

// lookAfterCommand passes signals on and reaps, until the command has ended. What still lives then dies with init.
// Signals are taken without ever being let through: a blocked one is kept even for a first process, which is spared all
// others.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func lookAfterCommand(n *nest) {
	n.signals &^= stopSignals
	for {
		number, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&n.signals)), 0, 0, 8, 0, 0)
		if errno != 0 {
			continue
		}
		if number != uintptr(unix.SIGCHLD) {
			syscall.RawSyscall6(unix.SYS_KILL, n.pid, number, 0, 0, 0, 0)
			continue
		}
		for reapOne(n, unix.WNOHANG) {
		}
	}
}

// liveAsHolder is the life of a process that a user namespace is made by. The kernel bounds what all users of a
// namespace may lock and run together by the limits of its maker, which has none.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func liveAsHolder(n *nest) {
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	unbound := uintptr(unsafe.Pointer(&n.unbound))
	syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NPROC, unbound, 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_MEMLOCK, unbound, 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_SIGPENDING, unbound, 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_MSGQUEUE, unbound, 0, 0, 0)
	_, _, errno := syscall.RawSyscall6(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0, 0, 0, 0)
	n.record = record{kind: recordHeld, value: uint64(errno)}
	tell(n)
	receive(n, uintptr(unsafe.Pointer(&n.record)), 1) // and ends with the starter's end of the socket
	leave(0)
}

// forkHolder forks that process.
func forkHolder(socket int) (pid int, err error) {
	n, err := newNest()
	if err != nil {
		return 0, err
	}
	defer n.free()
	n.socket, n.holdsIDs, n.clone.exitSignal = uintptr(socket), true, uint64(unix.SIGCHLD)
	n.unbound = [2]uint64{^uint64(0), ^uint64(0)}
	n.keep(n.socket)
	pid, pidfd, err := n.fork()
	if err == nil {
		unix.Close(pidfd)
	}
	return pid, err
}

// makeSpace makes a user namespace, by a process that is made in it and ends when it is open here.
func makeSpace(uids, gids []Span) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pair[0])
	theirs, err := aboveStdio(pair[1])
	if err != nil {
		return -1, err
	}
	pid, err := forkHolder(theirs)
	unix.Close(theirs)
	if err != nil {
		return -1, err
	}
	defer func() {
		_ = unix.Shutdown(pair[0], unix.SHUT_RDWR) // the process has nothing else to live for
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
				return
			}
		}
	}()
	said, err := listen(Channel(pair[0]))
	if err == nil && said.value != 0 {
		err = unix.Errno(said.value)
	}
	of := "/proc/" + strconv.Itoa(pid)
	for name, spans := range map[string][]Span{"/uid_map": uids, "/gid_map": gids} {
		if err == nil {
			err = os.WriteFile(of+name, mapOf(spans), 0) // The kernel takes a map in one call.
		}
	}
	if err != nil {
		return -1, err
	}
	return unix.Open(of+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}
