package unixsocket

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// calls makes the test binary a caller; the path of the socket follows. With confines before it, the caller first
// sets no_new_privs, like a task.
const (
	calls    = "call-the-socket"
	confines = "confine-yourself"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == confines {
		runtime.LockOSThread()
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = syscall.Exec("/proc/self/exe", []string{os.Args[0], os.Args[2], os.Args[3]}, nil)
		}
		panic(err)
	}
	if len(os.Args) == 3 && os.Args[1] == calls {
		conn, err := Dial(context.Background(), os.Args[2])
		if err != nil {
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, conn) // until the server closes
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// listen creates a socket in a data folder.
func listen(t *testing.T, dir string) *Listener {
	t.Helper()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// meet accepts the connection of a program.
func meet(t *testing.T, l *Listener, caller *exec.Cmd) *Conn {
	t.Helper()
	if err := caller.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = caller.Wait()
	})
	return c.(*Conn)
}

// TestWhoCalls checks that the kernel reports the user of a process, and that a confined process, such as a task,
// does not count as its user.
func TestWhoCalls(t *testing.T) {
	dir := t.TempDir()
	l := listen(t, dir)
	own, path := uint32(os.Geteuid()), Path(dir)
	if c := meet(t, l, exec.Command("/proc/self/exe", calls, path)); c.Who.UID != own || c.Refused != nil {
		t.Errorf("we are %s (%v)", c.Who, c.Refused)
	}
	confined, err := bounded("self") // then admitted processes are confined too
	if err != nil {
		t.Fatal(err)
	}
	if c := meet(t, l, exec.Command("/proc/self/exe", confines, calls, path)); c.Who.UID != own ||
		errors.Is(c.Refused, errConfined) == confined {
		t.Errorf("one like a task is %s (%v)", c.Who, c.Refused)
	}
	if os.Geteuid() != 0 {
		return
	}
	other := exec.Command("/proc/self/exe", calls, path)
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61874, Gid: 61874}}
	if err := other.Run(); err == nil {
		t.Error("another user gets through the folder")
	}
}

// TestNoPidfd checks that on a kernel without pidfds only root is admitted.
func TestNoPidfd(t *testing.T) {
	if err := confined(1, -1, unix.ENOPROTOOPT, 0); err != nil {
		t.Errorf("root: %v", err)
	}
	if err := confined(1, -1, unix.ENOPROTOOPT, 1000); !errors.Is(err, errUntold) {
		t.Errorf("a user: %v", err)
	}
}

// TestWhoIsGone checks that a process that has ended is refused, because its ID may have been reused.
func TestWhoIsGone(t *testing.T) {
	brief := exec.Command("/proc/self/exe", calls, filepath.Join(t.TempDir(), "none"))
	pidfd := -1
	brief.SysProcAttr = &syscall.SysProcAttr{PidFD: &pidfd}
	if err := brief.Run(); err == nil || pidfd < 0 {
		t.Skipf("this kernel has no descriptors of processes (%v)", err)
	}
	if err := confined(os.Getpid(), pidfd, nil, 1000); !errors.Is(err, errGone) {
		t.Errorf("it is %v", err)
	}
}

// TestClosed checks that the folder and the socket belong only to the scheduler, for any earlier mode and any path
// length.
func TestClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long-", 30))
	folder := filepath.Dir(Path(dir))
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	defer syscall.Umask(syscall.Umask(0))
	l := listen(t, dir)
	for path, want := range map[string]os.FileMode{folder: os.ModeDir | 0o700, Path(dir): os.ModeSocket | 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
	if !Mine(Path(dir)) || Mine(folder) || Mine(filepath.Join(folder, "none")) {
		t.Error("what is a socket of ours is told wrongly")
	}
	conn, err := Dial(t.Context(), Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(Path(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if _, err := Dial(t.Context(), Path(dir)); err == nil || strings.Contains(err.Error(), "/proc/") {
		t.Errorf("nobody listens: %v", err)
	}
}

// TestLeftOver checks that the socket of a killed scheduler is replaced, and that of a running one is not.
func TestLeftOver(t *testing.T) {
	dir := t.TempDir()
	l := listen(t, dir)
	if _, err := Listen(dir); err == nil || !strings.Contains(err.Error(), "another scheduler answers on the socket") {
		t.Errorf("two schedulers at one socket: %v", err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := listen(t, dir).Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(Path(dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(dir); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file is replaced: %v", err)
	}
	elsewhere, linked := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Dir(Path(linked))); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(linked); err == nil || !strings.Contains(err.Error(), "a folder that only this scheduler uses") {
		t.Errorf("a link is followed: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Dir(Path(dir)), 61874, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(dir); err == nil || !strings.Contains(err.Error(), "belongs to uid 61874") {
			t.Errorf("another's folder: %v", err)
		}
	}
}
