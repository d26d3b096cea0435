//go:build linux

// This file is the frame of the suite: the leak check around every case, and bounded starts and waits.
package conformance

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able"
)

// testCase is one failure that a driver must handle.
type testCase struct {
	name  string
	needs []Trait
	run   func(*suite)
}

// suite holds the test, the driver and the rootfs of one case.
type suite struct {
	*testing.T
	driver Driver
	rootfs string
}

// ofMachine is the prefix of a reason that the host causes, and not the driver.
const ofMachine = "this machine: "

// Run runs every case against a driver. A case that the driver cannot support is reported once. A case that only this
// host prevents is skipped by name.
func Run(t *testing.T, driver Driver) {
	if missing := able.Busybox(); missing != "" {
		t.Skip(missing)
	}
	for _, c := range slices.Concat(lifeCases, limitCases, rootCases, loadCases, execCases) {
		lack := lackOf(driver, c.needs)
		if lack != "" && !strings.Contains(lack, ofMachine) {
			t.Logf("%s: not for this driver, it lacks %s", c.name, lack)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if lack != "" {
				t.Skip("lacks ", lack)
			}
			Guard(t, driver.Leavings)
			c.run(&suite{t, driver, able.MakeRootfs(t)})
		})
	}
}

// lackOf returns a missing trait of a case with the reason, or an empty text.
func lackOf(driver Driver, needs []Trait) string {
	for _, trait := range needs {
		if reason := driver.Lacks(trait); reason != "" {
			return fmt.Sprintf("%s: %s", trait, reason)
		}
	}
	return ""
}

var write = able.WriteFile

// Guard fails a test that leaves anything behind: mounts, records of the driver, or processes. It also checks that the
// previous test was clean.
func Guard(t testing.TB, leavings func() ([]string, error)) {
	t.Helper()
	mounts := countMounts(t)
	children := liveChildren(t)
	t.Cleanup(func() {
		// Ending children may need a moment. After that, any remains are a leak.
		deadline := time.Now().Add(limit)
		for {
			problem := ""
			if left, err := leavings(); err != nil || len(left) > 0 {
				problem = fmt.Sprintf("left behind: %q (error: %v)", left, err)
			}
			if now := countMounts(t); now > mounts { // a mount that others made earlier may vanish with its directory
				problem = fmt.Sprintf("%d mounts before, %d after", mounts, now)
			}
			if now := liveChildren(t); len(now) > len(children) {
				problem = fmt.Sprintf("children before %q, after %q", children, now)
			}
			if problem == "" {
				return
			}
			if time.Now().After(deadline) {
				t.Error(problem)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// OwnMounts executes this program again in a separate mount namespace, so that mounts of other processes do not count
// as leaks. It is called at the beginning of a TestMain. Without root, it does nothing.
func OwnMounts(arguments, environment []string) error {
	const already = "CONFORMANCE_OWN_MOUNTS=1"
	if os.Geteuid() != 0 || slices.Contains(environment, already) {
		return nil
	}
	// The path is read first. /proc refers to the binary in the old mount namespace, and in a chroot the new
	// namespace has another path for it.
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); errors.Is(err, unix.EPERM) {
		runtime.UnlockOSThread()
		return nil // this host cannot make containers either, so those tests are skipped
	} else if err != nil {
		return fmt.Errorf("own mount namespace: %w", err)
	}
	// In a chroot, the root may not be a mount. Then no containers are possible, and the namespace suffices as it
	// is.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("own mounts: %w", err)
	}
	return syscall.Exec(self, arguments, append(environment, already))
}

func countMounts(t testing.TB) int {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// liveChildren returns this process's children, including zombies.
func liveChildren(t testing.TB) []string {
	var found []string
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // the thread may have ended
		found = append(found, strings.Fields(string(text))...)
	}
	return found
}

var drawn atomic.Int64

// NewID returns an id that no other test of this or another process uses.
func NewID() string { return fmt.Sprintf("conf-%d-%d", os.Getpid(), drawn.Add(1)) }

// sh returns a task that runs a script in the rootfs.
func (s *suite) sh(script string) Task {
	return Task{ID: NewID(), Rootfs: s.rootfs, Command: []string{"/bin/sh", "-c", script}}
}

// start starts a task, and fails the test if that is impossible.
func (s *suite) start(task Task) Running {
	s.Helper()
	running, err := s.driver.Start(task)
	if err != nil {
		s.Fatalf("start %q: %v", task.Command, err)
	}
	s.Cleanup(func() {
		_ = running.Kill()
		await(s.T, running)
	})
	return running
}

func await(t testing.TB, running Running) Exit {
	t.Helper()
	select {
	case <-running.Done():
		return running.Exit()
	case <-time.After(limit):
		t.Fatalf("the task is still there after %v", limit)
		return Exit{}
	}
}

// code runs a task until its end, and returns its code for any kind of failure.
func (s *suite) code(task Task) int {
	s.Helper()
	running, err := s.driver.Start(task)
	if err != nil {
		coded := interface{ ExitCode() int }(nil)
		if !errors.As(err, &coded) {
			s.Fatalf("start %q: %v has no exit code", task.Command, err)
		}
		return coded.ExitCode()
	}
	return await(s.T, running).Code
}

// output runs a task until its end and returns its output. The task must end with code 0.
func (s *suite) output(task Task) string {
	s.Helper()
	text, exit := s.capture(task)
	if exit.Code != 0 {
		s.Fatalf("%q ended with %d: %s", task.Command, exit.Code, text)
	}
	return text
}

func (s *suite) capture(task Task) (string, Exit) {
	s.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	defer reader.Close()
	task.Stdout, task.Stderr = writer, writer
	running, err := s.driver.Start(task)
	writer.Close()
	if err != nil {
		s.Fatalf("start %q: %v", task.Command, err)
	}
	_ = reader.SetReadDeadline(time.Now().Add(limit))
	text, err := io.ReadAll(io.LimitReader(reader, 1<<20))
	if err != nil {
		_ = running.Kill()
		s.Fatalf("read from %q: %v", task.Command, err)
	}
	return string(text), await(s.T, running)
}

// ready starts a task whose script prints "ready", and waits for that.
func (s *suite) ready(task Task) Running {
	s.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { reader.Close() })
	task.Stdout = writer
	running := s.start(task)
	writer.Close()
	_ = reader.SetReadDeadline(time.Now().Add(limit))
	if _, err := io.ReadFull(reader, make([]byte, len("ready\n"))); err != nil {
		_ = running.Kill()
		s.Fatalf("%q did not get ready: %v; it ended with %+v", task.Command, err, await(s.T, running))
	}
	return running
}
