//go:build linux

// This file tests resources that processes share through the kernel by a common number or name: System V and POSIX
// memory, queues and semaphores, and keys. A job may share them with itself and with no other job.
package conformance

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
)

// sharedKey and sharedName are known to both jobs.
const (
	sharedKey  = 0x5e7a117
	sharedName = "conformance-sharing"
	ownerOnly  = 0o600
)

// sharing maps the probe's words: "share" makes all resources and waits, and each other word tries to use one of them.
var sharing = map[string]func() error{
	"share":            share,
	"memory":           func() error { return attach(unix.SHM_RDONLY) },
	"memory, to write": func() error { return attach(0) },
	"removal of memory": func() error {
		id, err := unix.SysvShmGet(sharedKey, 0, 0)
		if err == nil {
			_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
		return err
	},
	"queue":            func() error { return queue(unix.SYS_MSGRCV) },
	"queue, to write":  func() error { return queue(unix.SYS_MSGSND) },
	"removal of queue": func() error { return queue(unix.SYS_MSGCTL) },
	"semaphore":        func() error { return semaphore(12) }, // GETVAL
	"removal of it":    func() error { return semaphore(unix.IPC_RMID) },
	"named queue":      func() error { _, err := namedQueue(unix.O_RDONLY); return err },
	"removal of named queue": func() error {
		name, err := unix.BytePtrFromString(sharedName)
		if err != nil {
			return err
		}
		return call(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
	},
	"key of the user": func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, false); return err },
	"search of keys": func() error {
		_, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", sharedName, 0)
		return err
	},
}

func attach(flags int) error {
	id, err := unix.SysvShmGet(sharedKey, 0, 0)
	if err != nil {
		return err
	}
	_, err = unix.SysvShmAttach(id, 0, flags)
	return err
}

// message is a short message of a queue.
type message struct {
	kind int
	text [8]byte
}

func queue(what uintptr) error {
	id, _, errno := unix.Syscall(unix.SYS_MSGGET, sharedKey, 0, 0)
	if errno != 0 {
		return errno
	}
	m := message{kind: 1}
	switch what {
	case unix.SYS_MSGCTL:
		return call(what, id, unix.IPC_RMID, 0)
	case unix.SYS_MSGSND:
		_, _, errno = unix.Syscall6(what, id, uintptr(unsafe.Pointer(&m)), 8, unix.IPC_NOWAIT, 0, 0)
	default:
		_, _, errno = unix.Syscall6(what, id, uintptr(unsafe.Pointer(&m)), 8, 0, unix.IPC_NOWAIT, 0)
	}
	if errno != 0 {
		return errno
	}
	return nil
}

func semaphore(what uintptr) error {
	id, _, errno := unix.Syscall(unix.SYS_SEMGET, sharedKey, 0, 0)
	if errno != 0 {
		return errno
	}
	return call(unix.SYS_SEMCTL, id, 0, what)
}

func namedQueue(flags uintptr) (uintptr, error) {
	name, err := unix.BytePtrFromString(sharedName)
	if err != nil {
		return 0, err
	}
	id, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), flags, ownerOnly, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return id, nil
}

// share makes one resource of each kind for its user only, prints "ready", and waits to be ended. It puts a message
// into the queue.
func share() error {
	if _, err := unix.SysvShmGet(sharedKey, 4096, unix.IPC_CREAT|ownerOnly); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	for _, get := range []uintptr{unix.SYS_MSGGET, unix.SYS_SEMGET} {
		arguments := [2]uintptr{unix.IPC_CREAT | ownerOnly, 0}
		if get == unix.SYS_SEMGET {
			arguments = [2]uintptr{1, unix.IPC_CREAT | ownerOnly}
		}
		if err := call(get, sharedKey, arguments[0], arguments[1]); err != nil {
			return fmt.Errorf("call %d: %w", get, err)
		}
	}
	if err := queue(unix.SYS_MSGSND); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	// Landlock permits no named queue.
	if _, err := namedQueue(unix.O_CREAT | unix.O_RDWR); err != nil && err != unix.EACCES {
		return fmt.Errorf("named queue: %w", err)
	}
	fmt.Println("ready")
	time.Sleep(10 * time.Minute)
	return nil
}

// unshare removes the remains of a killed "share" from the host. In a container, they end with the container.
func unshare() {
	for _, word := range []string{"removal of memory", "removal of queue", "removal of it", "removal of named queue"} {
		_ = sharing[word]()
	}
}

// TestJobsShareNothing checks that no job can use, change or remove the shared resources of another job. A task of the
// same job can, if tasks share the kernel's names, which shows that the probe works.
func TestJobsShareNothing(t *testing.T) {
	if interpreter := interpreterOf(t, "/proc/self/exe"); interpreter != "" {
		t.Skipf("the probe is this test binary, and it needs %s; make test runs it linked statically", interpreter)
	}
	unshare()
	t.Cleanup(unshare)
	words := []string{"memory", "memory, to write", "removal of memory", "queue", "queue, to write",
		"removal of queue", "semaphore",
		"removal of it", "named queue", "removal of named queue", "key of the user", "search of keys"}
	onMachinesOf(t, withUIDs, func(t *testing.T, s *stack, driver string) {
		folder := shown(t)
		line := func(words ...string) string {
			return "exec " + filepath.Join(folder, "probe") + " " + probeArgument + " '" + strings.Join(words, "' '") + "'"
		}
		victim := s.of("theirs", theirs, "host", line("share"), folder)
		until(t, "the other job shares nothing", func() bool {
			select {
			case <-victim.gone:
				t.Fatalf("the other job shares nothing: %v %s", victim.exit, victim.said())
			default:
			}
			return strings.Contains(victim.said(), "ready")
		})
		stranger := s.of("mine", mine, "host", line(words...), folder)
		<-stranger.gone
		got := answers(stranger.said())
		for _, word := range words {
			if got[word] == "" || got[word] == "allowed" {
				t.Errorf("%s of the other job: %q (%v)", word, got[word], stranger.exit)
			}
		}
		own := s.of("theirs", theirs, "host", line("memory", "semaphore"), folder)
		<-own.gone
		got = answers(own.said())
		if driver == "process" && (got["memory"] != "allowed" || got["semaphore"] != "allowed") {
			t.Errorf("of the same job: %v", got)
		}
		own.forgotten(t)
		stranger.forgotten(t)
		s.launcher.Tell(&messages.StopTask{Id: victim.id, Signal: int32(syscall.SIGKILL)}, s.pid)
		victim.forgotten(t)
		unshare()
	})
}
