package procgroup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// script makes a program in a folder that only this user can write to.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRun checks that the error of a program contains its output, and that its remaining children cause no wait.
func TestRun(t *testing.T) {
	for text, want := range map[string]string{
		"true":                             "",
		"echo a port is down; exit 3":      "exit status 3: a port is down",
		"exit 3":                           "exit status 3: no output",
		"kill -9 $$":                       "signal: killed: no output",
		"sleep 600 & exit 0":               "",
		"head -c 100000 /dev/zero; exit 1": "exit status 1: ???",
		"[ \"$1\" = one ] && echo $2 >&2; exit 1": "exit status 1: two",
	} {
		gone, err := Program{Command: []string{script(t, text), "one", "two"}, Timeout: time.Minute}.Run(context.Background())
		if gone != nil || want == "" != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestHangs checks that a hanging program is killed with its children at its timeout.
func TestHangs(t *testing.T) {
	note := filepath.Join(t.TempDir(), "pid")
	path := script(t, "sleep 600 & echo $! > "+note+"; wait")
	began := time.Now()
	gone, err := Program{Command: []string{path}, Timeout: 300 * time.Millisecond}.Run(context.Background())
	if !errors.Is(err, ErrHangs) || gone != nil || time.Since(began) > pace.Of(20*time.Second) {
		t.Fatalf("%v after %s", err, time.Since(began))
	}
	text, err := os.ReadFile(note)
	if err != nil {
		t.Skip("it was killed before it had begun anything")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for limit := pace.Until(20 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err != nil ||
			strings.Contains(string(stat), ") Z ") {
			break // no process reaps it here
		}
		if time.Now().After(limit) {
			t.Fatalf("%d goes on", pid)
		}
	}
}

// TestOwn checks that a program that others could change is not run.
func TestOwn(t *testing.T) {
	path := script(t, "true")
	check := func(command ...string) error { return Program{Command: command}.Check() }
	if err := check(path); err != nil {
		t.Fatal(err)
	}
	open := script(t, "true")
	if err := os.Chmod(open, 0o757); err != nil {
		t.Fatal(err)
	}
	beside := script(t, "true")
	if err := os.Chmod(filepath.Dir(beside), 0o777); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(open, link); err != nil {
		t.Fatal(err)
	}
	plain := script(t, "true")
	if err := os.Chmod(plain, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		open: "other users can write", beside: "other users can write", link: "other users can write",
		plain: "chmod +x", "true": "an absolute path", "": "no program is set", "/nosuch": "no such file",
	} {
		if err := check(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
		if _, err := (Program{Command: []string{path}, Timeout: time.Minute}).Run(context.Background()); err == nil {
			t.Errorf("%q is run all the same", path)
		}
	}
	if os.Geteuid() == 0 {
		other := script(t, "true")
		if err := os.Chown(other, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if err := check(other); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("of another user: %v", err)
		}
	}
	if self, err := exec.LookPath("sh"); err == nil && check(self) != nil {
		t.Errorf("the host's own shell is refused: %v", check(self))
	}
}
