//go:build linux

// The suite's frame: the leak check around every case, and starting and waiting with a bound.
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

// testCase is one failure that a driver must pass.
type testCase struct {
	name  string
	needs []Trait
	run   func(*suite)
}

// suite is one case's hands: its test, its driver and its rootfs.
type suite struct {
	*testing.T
	driver Driver
	rootfs string
}

// ofMachine begins the reason of a lack of the machine, not of the driver.
const ofMachine = "this machine: "

// Run runs every case against a driver. What a driver by its nature does not have is no case of it, and told once; what
// only this machine keeps from it is skipped, by name.
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

// lackOf answers what a driver lacks of a case's needs, and why, or nothing.
func lackOf(driver Driver, needs []Trait) string {
	for _, trait := range needs {
		if reason := driver.Lacks(trait); reason != "" {
			return fmt.Sprintf("%s: %s", trait, reason)
		}
	}
	return ""
}

var write = able.WriteFile

// Guard fails a test that leaves anything behind: mounts, what the driver knows of, or processes. It is also a check
// that the test before was as clean.
func Guard(t testing.TB, leavings func() ([]string, error)) {
	t.Helper()
	mounts := countMounts(t)
	children := liveChildren(t)
	t.Cleanup(func() {
		// Children of ours that were told to end may take a moment; what lies around after that is a leak.
		deadline := time.Now().Add(limit)
		for {
			problem := ""
			if left, err := leavings(); err != nil || len(left) > 0 {
				problem = fmt.Sprintf("left behind: %q (error: %v)", left, err)
			}
			if now := countMounts(t); now > mounts { // one that others made before us may go, with the directory that it lay on
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

// OwnMounts gives this program a mount namespace of its own and executes it again in there, so that what others mount
// on the machine meanwhile is not taken for a leak. It is for the beginning of a TestMain; without root it does
// nothing.
func OwnMounts(arguments, environment []string) error {
	const already = "CONFORMANCE_OWN_MOUNTS=1"
	if os.Geteuid() != 0 || slices.Contains(environment, already) {
		return nil
	}
	// Asked for first: what /proc calls our binary lies in the mount namespace that we leave, and its path as seen from
	// the new one is another in a chroot.
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); errors.Is(err, unix.EPERM) {
		runtime.UnlockOSThread()
		return nil // Then this machine makes no containers either, and what mounts is skipped.
	} else if err != nil {
		return fmt.Errorf("own mount namespace: %w", err)
	}
	// In a chroot the root need not be a mount: then no container is made either, and the namespace is as good as
	// it is.
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

// liveChildren lists this process's children, zombies among them.
func liveChildren(t testing.TB) []string {
	var found []string
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // The thread may have ended since.
		found = append(found, strings.Fields(string(text))...)
	}
	return found
}

var drawn atomic.Int64

// NewID answers an id that no other test of this or another process uses now.
func NewID() string { return fmt.Sprintf("conf-%d-%d", os.Getpid(), drawn.Add(1)) }

// sh is a task that runs a script in the rootfs.
func (s *suite) sh(script string) Task {
	return Task{ID: NewID(), Rootfs: s.rootfs, Command: []string{"/bin/sh", "-c", script}}
}

// start starts what must start.
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

// code runs a task to its end, wherever it fails.
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

// output runs a task to its end and answers what it wrote. It must end with code 0.
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

// ready starts a task whose script says "ready" once, and waits for that.
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
