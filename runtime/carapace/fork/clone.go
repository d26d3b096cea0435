//go:build linux

package fork

// Forking without executing. The child of fork is a copy of this process with one thread, on which Go's runtime is
// dead: its locks may be held by threads that are not there, and its collector may have stood in the middle of its
// work. So what runs in the child (init.go, command.go, and what stands last here) makes system calls and nothing else.
// It allocates nothing, grows no stack, writes no pointer, and may not panic. All it needs lies in a nest, which was
// filled before, or comes over a socket.
//
// It takes nothing from Go that is hidden or bound to one version: a function that is marked nosplit grows no stack,
// and syscall.RawSyscall6 makes the system call and nothing else. With a Go in which that is not true the child dies at
// once, in memory of its own, and the container that an agent tries at its start tells.

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cloneArguments is struct clone_args of the kernel.
type cloneArguments struct {
	flags, pidfd, childTid, parentTid, exitSignal, stack, stackSize, tls, setTid, setTidSize, cgroup uint64
}

const (
	maxKept         = maxJoins + 8
	cloneIntoCgroup = 0x200000000
	minStackBytes   = 4096 // five times what a chain of functions takes that may grow no stack
)

// fill fills the nest with what the order says.
func (n *nest) fill(order *Order) {
	for i, fd := range order.Joins {
		n.joins[i], n.joinsN = uintptr(fd), uintptr(i+1)
	}
	n.clone.exitSignal, n.cloneCommand.exitSignal = uint64(unix.SIGCHLD), uint64(unix.SIGCHLD)
	n.clone.flags, n.cloneCommand.flags = unix.CLONE_NEWPID, unix.CLONE_VFORK
	if n.joined {
		n.clone.flags = 0 // the thread has chosen whose namespace its children are in
	}
	if order.Leaf > 0 {
		born := &n.cloneCommand
		if n.noInit {
			born = &n.clone
		}
		born.flags, born.cgroup = born.flags|cloneIntoCgroup, uint64(order.Leaf)
	}
	kept := []uintptr{n.socket, n.ids, n.cgroups, uintptr(n.cloneCommand.cgroup)}
	n.keep(slices.Concat(kept, n.stdio[:], n.joins[:])...)
}

// keep names the descriptors that are to outlive the fork.
func (n *nest) keep(fds ...uintptr) {
	fds = slices.DeleteFunc(fds, func(fd uintptr) bool { return fd < 3 })
	slices.Sort(fds)
	n.keptN = uintptr(copy(n.kept[:], slices.Compact(fds)))
}

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

const (
	// errMoved is a stack that is no longer where it was seen: it had to grow. It does so a few times at most. The kernel
	// never answers clone3 so.
	errMoved = syscall.ESTALE
	maxMoves = 16
)

func (n *nest) forkHere(seen bool) (pid int, err error) {
	got, errno := n.forkDeaf(seen)
	if errno != 0 {
		return 0, errno
	}
	return int(got), nil
}

// forkDeaf forks while this thread hears no signal. In the child none would find a runtime that handles it, so it stays
// deaf; in the starter Go stops a goroutine by a signal, to move its stack.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func (n *nest) forkDeaf(seen bool) (pid uintptr, errno syscall.Errno) {
	const setMask = 2 // SIG_SETMASK
	heard := uintptr(unsafe.Pointer(&n.heard))
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, setMask, uintptr(unsafe.Pointer(&n.signals)), heard, 8, 0, 0)
	errno = errMoved
	if !seen || n.sees(uintptr(unsafe.Pointer(&errno))) {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&n.clone)), unsafe.Sizeof(n.clone), 0,
			0, 0, 0)
		if errno == 0 && pid == 0 {
			live(n)
		}
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, setMask, heard, 0, 8, 0, 0)
	return pid, errno
}

// sees reports whether init will have the memory at an address, and the page below.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
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
