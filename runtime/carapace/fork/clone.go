//go:build linux

package fork

// This file forks without exec. The child of fork is a copy of this process with one thread, and Go's runtime does not
// work in it. Missing threads may hold its locks, and a garbage collection may have been in progress. The code in the
// child (init.go, command.go, and the end of this file) therefore only makes system calls. It allocates nothing, grows
// no stack, writes no pointer, and must not panic. All its data is in a nest, which is filled before the fork, or
// arrives over a socket.
//
// The code depends on no hidden or version-specific feature of Go. A nosplit function grows no stack, and
// syscall.RawSyscall6 only makes the system call. If a version of Go breaks this, the child dies at once, in its own
// memory. An agent detects that with a test container at its start.

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
	minStackBytes   = 4096 // five times the stack of the deepest chain of nosplit functions
)

// fill fills the nest from the order.
func (n *nest) fill(order *Order) {
	for i, fd := range order.Joins {
		n.joins[i], n.joinsN = uintptr(fd), uintptr(i+1)
	}
	n.clone.exitSignal, n.cloneCommand.exitSignal = uint64(unix.SIGCHLD), uint64(unix.SIGCHLD)
	n.clone.flags, n.cloneCommand.flags = unix.CLONE_NEWPID, unix.CLONE_VFORK
	if n.joined {
		n.clone.flags = 0 // the thread has already chosen the namespaces of its children
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

// keep records the descriptors that survive the fork.
func (n *nest) keep(fds ...uintptr) {
	fds = slices.DeleteFunc(fds, func(fd uintptr) bool { return fd < 3 })
	slices.Sort(fds)
	n.keptN = uintptr(copy(n.kept[:], slices.Compact(fds)))
}

// seeMemory records the addresses of code, stack and nest. init gets no other memory of its starter.
func (n *nest) seeMemory(stack uintptr) {
	const binary = 512 << 20 // An upper bound; code and data of a binary are adjacent.
	page := uintptr(os.Getpagesize())
	code := reflect.ValueOf(liveAsInit).Pointer() &^ (page - 1)
	own := uintptr(unsafe.Pointer(n)) &^ (page - 1)
	stack &^= page - 1
	n.views = [3][2]uintptr{
		{code - min(code, binary), code + binary},
		{stack - 2*page, stack + 2*page}, // Two pages below, because the functions of init use more stack.
		{own, (own + unsafe.Sizeof(*n) + 2*page) &^ (page - 1)},
	}
	slices.SortFunc(n.views[:], func(a, b [2]uintptr) int { return cmp.Compare(a[0], b[0]) })
}

// advise gives the kernel an advice for all memory except the views.
func (n *nest) advise(advice uintptr) error {
	low := uintptr(0)
	for i := range len(n.views) + 1 {
		high := ^uintptr(0) &^ uintptr(os.Getpagesize()-1)
		if i < len(n.views) {
			high = n.views[i][0]
		}
		if high > low {
			// ENOMEM reports gaps between the mappings; the kernel continues after them.
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

// fork makes the child, which never returns from this function. The thread must be locked, because the child belongs to
// it and is killed when the thread ends.
//
// The child does not get the starter's heap, because init must not keep it in memory. This also saves the copy of page
// tables. The starter's other threads then have no page fault at each later write.
func (n *nest) fork() (pid, pidfd int, err error) {
	n.clone.flags, n.clone.pidfd = n.clone.flags|unix.CLONE_PIDFD, uint64(uintptr(unsafe.Pointer(&n.pidfd)))
	if !letsGoOfMemory {
		pid, err = n.forkHere(false)
		return pid, int(n.pidfd), err
	}
	// A fork by another goroutine needs all memory. Package syscall usually shares the memory, but not always.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	for range maxMoves {
		var here uintptr
		n.seeMemory(uintptr(unsafe.Pointer(&here)))
		if err = n.advise(unix.MADV_DONTFORK); err == nil {
			pid, err = n.forkHere(true)
		}
		// ENOMEM stops it at the kernel's own mapping. No fork needs this mapping or the main thread's stack
		// after it.
		_ = n.advise(unix.MADV_DOFORK)
		if err != errMoved {
			break
		}
	}
	return pid, int(n.pidfd), err
}

const (
	// errMoved reports that the stack moved because it had to grow. This happens a few times at most. clone3 never
	// returns this error.
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

// forkDeaf forks while this thread blocks all signals. The child keeps them blocked, because no runtime could handle
// them there. In the starter, Go uses a signal to stop a goroutine and move its stack.
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

// sees reports whether init will have the memory at an address and the page below it.
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

// live is the main function of the forked process.
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

// closeFiles first closes the starter's files. Among them are pipes of other containers, whose readers wait for the
// end.
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
