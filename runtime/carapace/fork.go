//go:build linux

// Forking without executing. The child of fork is a copy of this process with one thread, on which Go's runtime is dead: its
// locks may be held by threads that are not there, and its collector may have stood in the middle of its work. So what
// runs in the child (init.go, init_command.go) makes system calls and nothing else. It allocates nothing, grows no stack, writes no
// pointer, and may not panic. All it needs lies in a nest, which was filled before, or comes over a socket.
package carapace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Package syscall forks by the same two.
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
	cloneIntoCgroup = 0x200000000
	cloneVfork      = unix.CLONE_VFORK
	maxJoins        = 8
	maxKept         = maxJoins + 8
	minStackBytes   = 4096     // five times what a chain of functions takes that may grow no stack
	maxPlanBytes    = 16 << 20 // more than twice what the kernel takes for an exec
)

// nest is the memory that init lives in. It is mapped for one init, not by Go's allocator, and has no Go pointers: an address
// in it is a number. Neither init nor the starter sees what the other writes to it after the fork.
type nest struct {
	clone, cloneCommand cloneArguments

	socket   uintptr          // to the starter
	stdio    [3]uintptr       // what becomes the command's; none is below 3 but in its own place
	kept     [maxKept]uintptr // every descriptor that outlives the fork, from 3 on, rising
	keptN    uintptr
	joins    [maxJoins]uintptr // open `tasks` files of cgroup v1
	joinsN   uintptr
	views    [3][2]uintptr // of memory: where code, stack and nest lie, rising
	exeMount uint64        // the mount that our own binary was executed from
	hidden   bool          // whether init is hidden from the task
	traced   bool          // whether the command's exec is looked at
	noInit   bool
	holdsIDs bool      // whether this is no init, but holds a user namespace until that is open elsewhere (ids.go)
	ids      uintptr   // the user namespace that the command enters; 0: none
	unbound  [2]uint64 // struct rlimit64, no limit

	message message
	record  record
	pidfd   int32   // of init, written by the kernel for the starter
	proc    uintptr // descriptor of the container's /proc
	status  uint32
	pid     uintptr
	action  [4]uint64 // struct sigaction, all zero: the default
	signals uint64
	stat    unix.Statx_t
	path    [32]byte
	caps    capabilitySets
	names   struct{ proc, root, exe, here, top, own [16]byte } // ended by a zero

	plan plan
	data [maxPlanBytes]byte
}

// message is a struct msghdr with one part and one descriptor in its control data.
type message struct {
	name, nameLen, parts, partsN, control, controlLen, flags uintptr
	part                                                     struct{ base, length uintptr }
	rights                                                   struct {
		length      uintptr
		level, kind int32
		fd          int32
		_           int32
	}
}

type capabilitySets struct {
	version uint32
	pid     int32
	sets    [2]struct{ effective, permitted, inheritable uint32 }
}

// record is what init says to its starter.
type record struct {
	kind, step, index, _ uint16
	value                uint64
}

const (
	recordProc    = iota + 1 // with a descriptor of the container's /proc; init dies with its starter from then on
	recordReady              // of a command without an init, right before its exec; value is why it is not traced
	recordStarted            // value is why the command was not traced
	recordFailed             // step, index and errno
	recordExited             // value is the command's wait status
	recordHeld               // value is why there is no user namespace
	recordBytes   = int(unsafe.Sizeof(record{}))
)

// newNest maps one. It takes no memory before it is written to.
func newNest() (*nest, error) {
	at, err := unix.MmapPtr(-1, 0, nil, unsafe.Sizeof(nest{}), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("memory for init: %w", err)
	}
	n := (*nest)(at)
	n.signals, n.unbound = ^uint64(0), [2]uint64{^uint64(0), ^uint64(0)}
	n.clone.pidfd = uint64(uintptr(unsafe.Pointer(&n.pidfd)))
	for to, text := range map[*[16]byte]string{&n.names.proc: "proc", &n.names.root: "root", &n.names.exe: "/exe", &n.names.here: ".",
		&n.names.top: "/", &n.names.own: "carapace-init"} {
		copy(to[:], text)
	}
	m := &n.message
	m.part.base, m.part.length = uintptr(unsafe.Pointer(&n.record)), unsafe.Sizeof(n.record)
	m.rights.length, m.rights.level, m.rights.kind = uintptr(unix.CmsgLen(4)), unix.SOL_SOCKET, unix.SCM_RIGHTS
	m.parts, m.partsN = uintptr(unsafe.Pointer(&m.part)), 1
	m.control, m.controlLen = uintptr(unsafe.Pointer(&m.rights)), unsafe.Sizeof(m.rights)
	return n, nil
}

func (n *nest) free() { _ = unix.MunmapPtr(unsafe.Pointer(n), unsafe.Sizeof(*n)) }

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

// fork makes the child, which never comes back from here. The thread must be locked: the child is one of its own, and is
// killed when it ends.
//
// The heap of a starter is not init's to hold on to, so the child does not get it. That also spares the copying of page tables,
// and a starter's other threads the interrupt for every page that one of them writes to afterwards.
func (n *nest) fork() (pid int, err error) {
	if !letsGoOfMemory {
		return n.forkHere(false)
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
	return pid, err
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
	got, _, errno := syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&n.clone)), unsafe.Sizeof(n.clone), 0, 0, 0, 0)
	if errno == 0 && got == 0 {
		liveAsInit(n)
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
