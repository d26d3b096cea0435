//go:build linux

// How signals get to the command. To have Go catch them all costs two switches of thread for each of sixty signals, which
// was an eighth of a container's whole start. So a sender has one courier carry the number, as the value that comes with a
// queued signal, and init takes it from a descriptor. Init is born with the courier blocked: none is lost from its first
// moment on. What comes without a courier is handed on where it can be, and else means nothing to an init.
package carapace

import (
	"fmt"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// courier is the signal that carries others. No program means anything by it.
const courier = syscall.Signal(62)

// stops would stop init, and not what it watches; a stopped gang member is no use anyway.
var stops = []syscall.Signal{unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}

// unheard are those that Go never lets be blocked, or uses itself.
var unheard = []syscall.Signal{unix.SIGKILL, unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGCHLD, unix.SIGPROF, unix.SIGURG}

// sendSignal sends to a container by its first process: an init, or, direct, the command itself.
func sendSignal(pidfd int, signal syscall.Signal, direct bool) error {
	if slices.Contains(stops, signal) {
		return fmt.Errorf("signal %d: a container cannot be stopped and continued; send one that ends it", int(signal))
	}
	var info *unix.Siginfo
	number := signal
	if !direct && signal != unix.SIGKILL && signal != 0 {
		info, number = &unix.Siginfo{Signo: int32(courier), Code: queued}, courier
		*(*int32)(unsafe.Add(unsafe.Pointer(info), valueAt)) = int32(signal)
	}
	if err := unix.PidfdSendSignal(pidfd, number, info, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal %d: %w", int(signal), err)
	}
	return nil
}

const (
	queued = -1 // SI_QUEUE
	// valueAt is where a siginfo has the value: behind three numbers, aligned for a pointer, and the sender's pid and uid,
	// which are ours to leave empty.
	valueAt = 16 + unsafe.Sizeof(uintptr(0))
)

const lastSignal = 64

// allSignals is the set of all, and noSignals that of none.
var (
	allSignals  = unix.Sigset_t{Val: [16]uint64{^uint64(0)}}
	onlyCourier = unix.Sigset_t{Val: [16]uint64{1 << (courier - 1)}}
	noSignals   unix.Sigset_t
)

// withSignalsBlocked does something on the calling thread, which must be kept, so that what it forks is born deaf.
func withSignalsBlocked(do func()) error {
	var before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &allSignals, &before); err != nil {
		return fmt.Errorf("block signals: %w", err)
	}
	do()
	return unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
}

// inbox is the descriptor that init's signals come from.
type inbox int

// openInbox opens it. Go's own handlers go: what they would do with a signal that slips past is to end init, and what the
// kernel does with it, for the first process of a namespace, is nothing.
func openInbox() (inbox, error) {
	var plain [32]byte // The kernel's struct sigaction, which is all zero for the default.
	wanted := allSignals
	for number := syscall.Signal(1); number <= lastSignal; number++ {
		if slices.Contains(unheard, number) || slices.Contains(stops, number) {
			wanted.Val[0] &^= 1 << (number - 1)
			continue
		}
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(number), uintptr(unsafe.Pointer(&plain)), 0, 8, 0, 0)
	}
	fd, err := unix.Signalfd(-1, &wanted, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
	return inbox(fd), err
}

// taken is what came so far. It does not wait.
func (i inbox) taken() []syscall.Signal {
	var all []syscall.Signal
	for {
		got, err := i.next()
		if err != nil {
			return all
		}
		all = append(all, got)
	}
}

func (i inbox) next() (syscall.Signal, error) {
	var info unix.SignalfdSiginfo
	into := unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info))
	for {
		_, err := unix.Read(int(i), into)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case info.Signo == uint32(courier) && info.Code == queued:
			return syscall.Signal(info.Int), nil
		default:
			return syscall.Signal(info.Signo), nil
		}
	}
}

// passOn hands signals to the command, the early ones first.
func (i inbox) passOn(early []syscall.Signal, pid int) {
	for _, number := range early {
		_ = unix.Kill(pid, number)
	}
	if unix.SetNonblock(int(i), false) != nil {
		return
	}
	for {
		number, err := i.next()
		if err != nil {
			return
		}
		_ = unix.Kill(pid, number)
	}
}
