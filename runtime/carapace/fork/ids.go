//go:build linux

package fork

// This file makes user namespaces, which map host ids to ids inside. The kernel does not let a process of several
// threads join one. Therefore a forked process makes the namespace, and ends when this process has opened it.

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Span maps ids of users or groups: N ids from Inside on correspond to those from Outside on.
type Span struct{ Inside, Outside, N uint64 }

// NewSpace makes a user namespace with maps of users and groups, and returns a descriptor of it. The thread must be
// locked and in the host's namespaces. The namespace lives on in its processes and in the mounts that use it.
func NewSpace(uids, gids []Span) (fd int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make a user namespace: %w", err)
		}
	}()
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
		_ = unix.Shutdown(pair[0], unix.SHUT_RDWR) // the process then ends
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
			err = os.WriteFile(of+name, mapOf(spans), 0) // The kernel accepts a map only in one write.
		}
	}
	if err != nil {
		return -1, err
	}
	return unix.Open(of+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// mapOf returns a map in the kernel's format.
func mapOf(spans []Span) []byte {
	var text strings.Builder
	for _, s := range spans {
		fmt.Fprintln(&text, s.Inside, s.Outside, s.N)
	}
	return []byte(text.String())
}

// forkHolder forks the process that makes a user namespace.
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

// liveAsHolder is the main function of the process that makes a user namespace. It first removes its own resource
// limits. The kernel applies the limits of the namespace's maker to all users of the namespace together.
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
	receive(n, uintptr(unsafe.Pointer(&n.record)), 1) // ends when the starter closes its end of the socket
	leave(0)
}
