package procgroup

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able/pace"
)

// TestNothingIsLeft checks that the remaining processes of a group end with the program, and that its exit code is
// returned.
func TestNothingIsLeft(t *testing.T) {
	said := &strings.Builder{}
	run := exec.Command("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!; exit 3")
	run.Stdout = said
	c, err := Start(run, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, c)
	if code := run.ProcessState.ExitCode(); code != 3 || c.Err() == nil {
		t.Errorf("it ended with %d, reported as %v", code, c.Err())
	}
	child := number(t, said)
	for limit := pace.Until(time.Minute); lives(child); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("process %d outlived the program that started it", child)
		}
	}
}

// lives reports whether a process has not ended. A zombie has ended.
func lives(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// number returns the pid that a program has printed.
func number(t *testing.T, said *strings.Builder) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(said.String()))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestKilledWhole checks that Kill kills the whole group, and that a second call kills nothing.
func TestKilledWhole(t *testing.T) {
	run := exec.Command("sh", "-c", "sleep 600 & wait")
	c, err := Start(run, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	c.Kill()
	awaitEnd(t, c)
	if s, ok := run.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", run.ProcessState)
	}
	if c.Kill(); !c.reaped {
		t.Error("it has ended, and its number would still be used")
	}
}

// TestHeldOutput checks that a process outside of the group that holds the output causes neither a wait nor an error.
func TestHeldOutput(t *testing.T) {
	said := &strings.Builder{}
	run := exec.Command("sh", "-c", `setsid sleep 600 & until [ "$(cut -d' ' -f6 /proc/$!/stat)" = $! ]; do :; done; echo $!`)
	run.Stdout = said
	c, err := Start(run, time.Second) // enough time to read the shell's earlier output
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, c)
	holder := number(t, said)
	defer func() { _ = unix.Kill(holder, unix.SIGKILL) }()
	if c.Err() != nil || unix.Kill(holder, 0) != nil {
		t.Errorf("it is reported as %v, and the holder of its output should live", c.Err())
	}
}

func awaitEnd(t *testing.T, c *Crew) {
	t.Helper()
	select {
	case <-c.Ended():
	case <-time.After(pace.Of(time.Minute)):
		t.Fatal("it has not ended")
	}
}
