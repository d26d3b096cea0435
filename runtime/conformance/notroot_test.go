//go:build linux

// This file tests containers of a user other than root: a user namespace, and reports of the missing features.
package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able"
)

// nobody is a user that runs the command carapace.
type nobody struct{ state, binary string }

func newNobody(t *testing.T) nobody {
	t.Helper()
	able.Need(t, able.Root, able.Nesting)
	n := nobody{filepath.Join(t.TempDir(), "state"), buildCommand(t)}
	if err := os.Mkdir(n.state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(n.state, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for folder := filepath.Dir(n.state); folder != filepath.Clean(os.TempDir()) &&
		folder != "/"; folder = filepath.Dir(folder) {
		_ = os.Chmod(folder, 0o755)
	}
	t.Cleanup(func() {
		for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) { // the cleanup may not have finished
			entries, err := os.ReadDir(n.state)
			if err == nil && len(entries) == 0 {
				return
			}
			if err != nil || time.Now().After(deadline) {
				t.Errorf("left: %v (%v)", entries, err)
				return
			}
		}
	})
	return n
}

func (n nobody) command(word string, arguments ...string) *exec.Cmd {
	run := exec.Command(n.binary, append([]string{word, "--state-dir", n.state}, arguments...)...)
	run.Dir = "/"
	run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return run
}

func (n nobody) run(arguments ...string) (string, int) {
	run := n.command("run", arguments...)
	text, _ := run.CombinedOutput()
	return string(text), run.ProcessState.ExitCode()
}

func TestNotRoot(t *testing.T) {
	n := newNobody(t)
	text, code := n.run("--rootfs", "host", "--memory", "64m", "--", "sh", "-c",
		"echo pid $$; id -u; touch /tmp/x && echo tmp; touch /usr/x 2>/dev/null && echo wrote; exit 4")
	for _, line := range []string{"pid 2\n", "\n0\n", "tmp\n"} { // lines of our own standard error may be in between
		if !strings.Contains(text, line) {
			t.Errorf("no %q in %s", line, text)
		}
	}
	if code != 4 || strings.Contains(text, "wrote") || !strings.Contains(text, "not enforced: memory limit") {
		t.Errorf("code %d: %s", code, text)
	}
	for _, c := range []struct {
		arguments []string
		code      int
	}{
		{[]string{"--memory", "64m", "--limits-required", "--", "true"}, 125},
		{[]string{"--init=false", "--", "sh", "-c", "test $$ = 1 && exit 5"}, 5},
		{[]string{"--", "sh", "-c", "kill -KILL $$"}, 137},
		{[]string{"--", "no-such-program"}, 127},
		{[]string{"--", "/etc"}, 126},
		{
			[]string{"--rlimit", "nproc=100", "--rlimit", "nofile=70", "--net", "none", "--hostname", "here", "--", "sh", "-c",
				"test $(ulimit -n)-$(uname -n) = 70-here"}, 0,
		},
		{[]string{"--mount", "/no/such/place:/tmp/x", "--", "true"}, 125},
		{[]string{"--", "grep", "-c", "SigBlk:.0000000000000000", "/proc/self/status"}, 0},
	} {
		if text, code := n.run(append([]string{"--rootfs", "host"}, c.arguments...)...); code != c.code {
			t.Errorf("%q: code %d: %s", c.arguments, code, text)
		}
	}
}

// TestNotRootEnds checks that signals reach the command, and that the container dies with its starter.
func TestNotRootEnds(t *testing.T) {
	n := newNobody(t)
	for _, noInit := range []string{"--init=true", "--init=false"} {
		for _, send := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
			run := n.command("run", "--rootfs", "host", noInit, "--status-fd", "3", "--", "sh", "-c",
				"trap 'exit 6' TERM; while :; do sleep 0.01; done")
			events, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			run.ExtraFiles = []*os.File{writer}
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			init, err := unix.PidfdOpen(untilStarted(t, events), 0)
			if err != nil {
				t.Fatal(err)
			}
			until(t, "the shell is not ready", func() bool { return trapsTerm(run.Process.Pid) })
			if err := run.Process.Signal(send); err != nil {
				t.Fatal(err)
			}
			if !dies(init) {
				t.Errorf("%s: the container outlives %v", noInit, send)
			}
			unix.Close(init)
			_ = run.Wait()
			if code := run.ProcessState.ExitCode(); send == unix.SIGTERM && code != 6 {
				t.Errorf("%s: ended with %d", noInit, code)
			}
			events.Close()
			if text, err := n.command("gc").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, text)
			}
		}
	}
}

// trapsTerm reports whether a descendant catches SIGTERM and is not a Go program, because all Go programs catch it.
func trapsTerm(pid int) bool {
	for _, p := range supervisor.Descendants(pid, supervisor.Processes()) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
		for line := range strings.Lines(string(text)) {
			var caught uint64
			if _, err := fmt.Sscanf(line, "SigCgt: %x", &caught); err == nil && caught&(1<<(unix.SIGTERM-1)) != 0 &&
				caught&(1<<(unix.SIGURG-1)) == 0 {
				return true
			}
		}
	}
	return false
}
