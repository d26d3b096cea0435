//go:build linux

package fork

// The memory of a first process, and what it says to its starter. All of both is numbers: nothing in here is Go's to
// collect, to move or to look at.

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxJoins     = 17      // as many hierarchies as Linux has of v1, and v2's beside them
	maxPlanWords = 2 << 20 // more than twice what the kernel takes for an exec
)

// nest is the memory that a first process lives in. It is mapped for one process, not by Go's allocator, and has no Go
// pointers: an address in it is a number. Neither process nor starter sees what the other writes to its own afterwards.
type nest struct {
	clone, cloneCommand cloneArguments

	pidfd int32            // of init, written by the kernel for the starter
	kept  [maxKept]uintptr // every descriptor that outlives the fork, from 3 on, rising
	keptN uintptr
	views [3][2]uintptr // of memory: where code, stack and nest lie, rising
	heard uint64        // the signals that the starter's thread does not hear

	socket     uintptr    // to the starter
	stdio      [3]uintptr // what becomes that of the command; none is below 3 but in its own place
	joins      [maxJoins]uintptr
	joinsN     uintptr
	cgroups    uintptr // the cgroup namespace that a command which joins enters; 0: none
	ids        uintptr // the user namespace that the command enters; 0: none
	exeMount   uint64  // the mount that our own binary was executed from
	hidden     bool    // whether init is hidden from the task
	traced     bool    // whether the command's exec is looked at
	noInit     bool
	joined     bool      // whether it comes into a container that is there
	ownCgroups bool      // whether the command's cgroups are the root of what it sees
	holdsIDs   bool      // whether this is no init, but makes a user namespace, and holds it until that is open elsewhere
	unbound    [2]uint64 // struct rlimit64, no limit

	message message
	record  record
	proc    uintptr // descriptor of the container's /proc
	status  uint32
	pid     uintptr
	action  [4]uint64 // struct sigaction, all zero: the default
	signals uint64
	stat    unix.Statx_t
	path    [32]byte
	caps    capabilitySets
	names   struct{ proc, root, exe, here, top, own [16]byte } // ended by a zero

	plan laidPlan
	data [maxPlanWords]uintptr
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

// record holds the report of a process to its starter.
type record struct {
	kind  uint16
	step  Step
	index uint16
	_     uint16
	value uint64
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

func recordOf(text [recordBytes]byte) (said record) {
	copy(bytesOf(&said, 1), text[:])
	return said
}

func (r record) failure() *Failure {
	return &Failure{Step: r.step, Index: int(r.index), Errno: syscall.Errno(r.value)}
}

// bytesOf is the memory of some values.
func bytesOf[T any](first *T, count int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(first)), count*int(unsafe.Sizeof(*first)))
}

// newNest maps one. It takes no memory before it is written to.
func newNest() (*nest, error) {
	at, err := unix.MmapPtr(-1, 0, nil, unsafe.Sizeof(nest{}), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("memory for init: %w", err)
	}
	n := (*nest)(at)
	n.signals = ^uint64(0)
	for to, text := range map[*[16]byte]string{&n.names.proc: "proc", &n.names.root: "root", &n.names.exe: "/exe",
		&n.names.here: ".", &n.names.top: "/", &n.names.own: "carapace-init"} {
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
