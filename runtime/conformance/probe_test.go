//go:build linux

// This file is a program that runs inside containers: this test binary, mounted there. Each word tries a forbidden
// action and prints the kernel's answer.
package conformance

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const probeArgument = "probe-from-inside"

var probes = map[string]func() error{
	"unshare user":  func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"unshare mount": func() error { return unix.Unshare(unix.CLONE_NEWNS) },
	"clone3 user":   cloneUser,
	"mount":         func() error { return unix.Mount("x", "/tmp", "tmpfs", 0, "") },
	"bpf":           func() error { return call(unix.SYS_BPF, 0, 0, 0) },
	"io_uring":      func() error { return call(unix.SYS_IO_URING_SETUP, 1, 0, 0) },
	"keyctl":        func() error { return call(unix.SYS_KEYCTL, 0, 0, 0) },
	"kexec":         func() error { return call(unix.SYS_KEXEC_LOAD, 0, 0, 0) },
	"reboot":        func() error { return call(unix.SYS_REBOOT, 0, 0, 0) },
	"inject":        func() error { return call(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0) },
	"vsock":         func() error { return opened(unix.AF_VSOCK) },
	"alg":           func() error { return opened(unix.AF_ALG) },
	"personality":   func() error { return call(unix.SYS_PERSONALITY, 0x0040000, 0, 0) },
	"tree attr":     func() error { return call(unix.SYS_OPEN_TREE_ATTR, 0, 0, 0) },
	"userfault":     func() error { return call(unix.SYS_USERFAULTFD, 1, 0, 0) },
	"mbind":         func() error { return call(unix.SYS_MBIND, 0, 0, 0) },
	"inet":          func() error { return opened(unix.AF_INET) },
	"traced":        traceOneself,
	"init memory":   func() error { _, err := os.Open("/proc/1/mem"); return err },
	"init binary":   func() error { _, err := os.Readlink("/proc/1/exe"); return err },
	"init root":     func() error { _, err := os.ReadDir("/proc/1/root/"); return err },
	"sysctl":        func() error { return os.WriteFile("/proc/sys/kernel/core_pattern", []byte("core"), 0) },
	// An unknown letter has no effect.
	"sysrq":      func() error { return os.WriteFile("/proc/sysrq-trigger", []byte("x"), 0) },
	"cgroup":     func() error { return os.Mkdir("/sys/fs/cgroup/pids/x", 0o755) },
	"write root": func() error { return os.WriteFile("/written-by-the-task", nil, 0o644) },
	"write usr":  func() error { return os.WriteFile("/usr/written-by-the-task", nil, 0o644) },
	"own":        ownService,
	"is called":  isCalled,
	"chroot":     func() error { return unix.Chroot("/") },
}

func call(number, first, second, third uintptr) error {
	if _, _, errno := unix.Syscall(number, first, second, third); errno != 0 {
		return errno
	}
	return nil
}

// opened tries a socket of an address family.
func opened(domain int) error {
	fd, err := unix.Socket(domain, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// traceOneself asks the parent to trace it, and sends itself a signal. It continues as if it were not traced.
func traceOneself() error {
	runtime.LockOSThread()
	signal.Notify(make(chan os.Signal, 1), unix.SIGUSR1)
	if err := call(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0); err != nil {
		return err
	}
	return unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGUSR1)
}

// cloneUser makes a process in a new user namespace by clone3, whose flags filters cannot see.
func cloneUser() error {
	runtime.LockOSThread()
	arguments := struct{ flags, pidfd, childTid, parentTid, exitSignal, stack, stackSize, tls uint64 }{
		flags: unix.CLONE_NEWUSER | unix.CLONE_VFORK, exitSignal: uint64(unix.SIGCHLD),
	}
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&arguments)), unsafe.Sizeof(arguments), 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

// probe tries each word and prints "word: answer" lines, in the order of the words. Words that wait for the network run
// concurrently, because a dropped packet takes the whole time limit.
func probe(words []string) int {
	answered := make([]chan error, len(words))
	for i, word := range words {
		try, known := probes[word]
		if !known {
			try, known = sharing[word]
		}
		if !known {
			try, known = dialling(word)
		}
		if !known {
			fmt.Fprintf(os.Stderr, "no probe %q\n", word)
			return 2
		}
		answered[i] = make(chan error, 1)
		if waits(word) {
			go func() { answered[i] <- try() }()
		} else {
			answered[i] <- try()
		}
	}
	for i, word := range words {
		answer, err := "allowed", <-answered[i]
		if err != nil {
			answer = err.Error()
			if errno := unix.Errno(0); errors.As(err, &errno) {
				answer = unix.ErrnoName(errno)
			}
		}
		fmt.Printf("%s: %s\n", word, answer)
	}
	return 0
}

// interpreterOf returns the dynamic linker of a program, or "" for a static one.
func interpreterOf(t testing.TB, program string) string {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			name, err := io.ReadAll(part.Open())
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}

// answers parses the output of a probe.
func answers(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if word, answer, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
			found[word] = answer
		}
	}
	return found
}
