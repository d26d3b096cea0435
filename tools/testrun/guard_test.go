package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This file tests a run that is stopped.

// TestMain lets this test's binary act as the guard and the worker.
func TestMain(m *testing.M) {
	if os.Getenv("TESTRUN_TEST") != "" {
		main()
	}
	os.Exit(m.Run())
}

// stray acts as `go test`. It leaves a file, a process that hides its origin, and a process that has left its parent
// and keeps its environment.
const stray = `echo there >$TMPDIR/file; mkdir -p $TMPDIR/closed/dir; chmod 0 $TMPDIR/closed
setsid env -i sleep 86391 >/dev/null & setsid sleep 86392 >/dev/null & echo started $TMPDIR $$; sleep 86393`

// sleeping returns the processes of stray.
func sleeping() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		text, _ := os.ReadFile(path)
		if strings.HasPrefix(string(text), "sleep\x008639") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestStopped checks that no process and no file is left after an interrupt, and after the guard or the worker was
// killed.
func TestStopped(t *testing.T) {
	for name, stop := range map[string]func(guard, worker int){
		"SIGTERM":               func(guard, _ int) { _ = syscall.Kill(guard, syscall.SIGTERM) },
		"SIGINT":                func(guard, _ int) { _ = syscall.Kill(guard, syscall.SIGINT) },
		"the worker is killed":  func(_, worker int) { _ = syscall.Kill(worker, syscall.SIGKILL) },
		"the guard is killed":   func(guard, _ int) { _ = syscall.Kill(guard, syscall.SIGKILL) },
		"the tests are stopped": func(_, worker int) { _ = syscall.Kill(-worker, syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command("/proc/self/exe", ".", "sh", "-c", stray)
			c.Env = append(os.Environ(), "TESTRUN_TEST=1", paceVariable+"=1", "TMPDIR="+t.TempDir())
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			buffer := make([]byte, 1000)
			n, _ := out.Read(buffer)
			words := strings.Fields(string(buffer[:n]))
			if len(words) != 3 || words[0] != "started" {
				t.Fatalf("it said %q", buffer[:n])
			}
			shell, _ := strconv.Atoi(words[2])
			wait(t, "the processes have not started", func() bool { return len(sleeping()) == 3 })
			stop(c.Process.Pid, parentOf(t, shell))
			_ = c.Wait()
			wait(t, "processes are left", func() bool { return len(sleeping()) == 0 })
			wait(t, "files are left", func() bool { _, err := os.Stat(words[1]); return os.IsNotExist(err) })
		})
	}
}

// parentOf returns a process's parent.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if err != nil || len(fields) < 2 {
		t.Fatal(err)
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal(what)
		}
	}
}

// TestPaced checks that packages on a slow host get proportionally more time, with or without an explicit limit.
func TestPaced(t *testing.T) {
	t.Setenv(paceVariable, "4")
	for given, want := range map[string]string{
		"go test -json ./x":               "go test -timeout 30m0s -json ./x",
		"go test -json -timeout 20m ./x":  "go test -json -timeout 30m0s ./x",
		"env A=1 go test -json -race ./x": "env A=1 go test -timeout 30m0s -json -race ./x",
		"go vet -json ./x":                "go vet -json ./x",
	} {
		if got := paced(".", strings.Fields(given)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s became %q", given, got)
		}
	}
}
