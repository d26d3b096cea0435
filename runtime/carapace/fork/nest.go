//go:build linux

package fork

// This file defines the memory of a first process and its messages to the starter. Both contain only numbers, so Go's
// garbage collector does not look at or move them.

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxJoins     = 17      // the hierarchies of cgroup v1, and the one of v2
	maxPlanWords = 2 << 20 // more than twice the kernel's limit for an exec
)

// nest is the memory of a first process. It is mapped for one process, not allocated by Go, and has no Go pointers:
// addresses in it are numbers. After the fork, neither process sees the other's writes.
type nest struct {
	clone, cloneCommand cloneArguments

	pidfd int32            // of init; the kernel writes it for the starter
	kept  [maxKept]uintptr // every descriptor that survives the fork, from 3 on, in order
	keptN uintptr
	views [3][2]uintptr // the memory ranges of code, stack and nest, in order
	heard uint64        // the blocked signals of the starter's thread

	socket     uintptr    // to the starter
	stdio      [3]uintptr // the streams of the command; a number below 3 is already the stream itself
	joins      [maxJoins]uintptr
	joinsN     uintptr
	cgroups    uintptr // the cgroup namespace that a joined command enters; 0: none
	ids        uintptr // the user namespace that the command enters; 0: none
	exeMount   uint64  // the mount from which this binary was executed
	hidden     bool    // init is hidden from the task
	traced     bool    // the command's exec is checked
	noInit     bool
	joined     bool      // it joins an existing container
	ownCgroups bool      // the command's cgroups are the root of its view
	holdsIDs   bool      // this process makes a user namespace and holds it until it is open elsewhere; it is no init
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
	names   struct{ proc, root, exe, here, top, own [16]byte } // each ends with a zero byte

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
	recordProc    = iota + 1 // with a descriptor of the container's /proc; from now on init dies with its starter
	recordReady              // right before the exec of a command without an init; value is the reason if it is not traced
	recordStarted            // value is the reason if the command was not traced
	recordFailed             // step, index and errno
	recordExited             // value is the command's wait status
	recordHeld               // value is the reason if there is no user namespace
	recordBytes   = int(unsafe.Sizeof(record{}))
)

func recordOf(text [recordBytes]byte) (said record) {
	copy(bytesOf(&said, 1), text[:])
	return said
}

func (r record) failure() *Failure {
	return &Failure{Step: r.step, Index: int(r.index), Errno: syscall.Errno(r.value)}
}

// bytesOf returns the memory of some values as bytes.
func bytesOf[T any](first *T, count int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(first)), count*int(unsafe.Sizeof(*first)))
}

// newNest maps a nest. It uses no physical memory until it is written.
func newNest() (*nest, error) {
	at, err := unix.MmapPtr(-1, 0, nil, unsafe.Sizeof(nest{}), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map memory for init: %w", err)
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
