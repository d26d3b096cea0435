package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the working directory of a job that does not set one.

// TestBeginsWhereSubmitted checks that a job on the host's own root starts in its submit directory if its user can
// enter it, and writes there with the user's permissions. Otherwise it starts in its scratch directory, with a message.
func TestBeginsWhereSubmitted(t *testing.T) { eachDriver(t, beginsWhereSubmitted) }

func beginsWhereSubmitted(t *testing.T, c *cluster) {
	c.node("n1", "r1")
	run := func(dir string, mode os.FileMode, line string) (phase, output string) {
		if mode != 0 {
			if err := os.WriteFile(filepath.Join(dir, "train.sh"), []byte("#!/bin/sh\npwd\n"+line+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
		}
		spec := gang(1, 0, "")
		spec.Command, spec.SubmitDir = []string{"sh", "-c", "[ -e train.sh ] || pwd; exec ./train.sh"}, dir
		id := c.submit(spec)
		for limit := pace.Until(20 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			if s := c.job(id); s.Record.State.Terminal() {
				return s.Phase, c.logs(id)
			}
		}
		t.Fatalf("job %s has not finished", id)
		return "", ""
	}
	folder := func() string {
		dir, err := os.MkdirTemp("/tmp", "synapse-e2e-submitted-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}

	// A container of an engine may see it under a name that no link can replace.
	begun := func(out, dir string) bool { return out == dir+"\n" || out == "/.workdir\n" }

	open := folder()
	if phase, out := run(open, 0o777, "id -u > made"); phase != "succeeded" || !begun(out, open) {
		t.Errorf("if all users may write there, the job %s: %s", phase, out)
	}
	user, err := os.ReadFile(filepath.Join(open, "made"))
	if err != nil {
		t.Errorf("the job wrote nothing there: %v", err)
	}
	nowhere := filepath.Join(open, "nosuch")
	if phase, out := run(nowhere, 0, ""); phase != "failed" || !strings.Contains(out, "begins in its scratch directory") ||
		!strings.Contains(out, nowhere) {
		t.Errorf("if the directory does not exist, the job %s: %s", phase, out)
	}
	if strings.TrimSpace(string(user)) == strconv.Itoa(os.Geteuid()) {
		return // there is no other user to test
	}
	looked := folder()
	if phase, out := run(looked, 0o755, "echo no > made 2> /dev/null && echo written"); phase != "failed" ||
		!begun(out, looked) {
		t.Errorf("if the directory is read-only, the job %s: %s", phase, out)
	}
	closed := folder()
	if phase, out := run(closed, 0o700, "true"); phase != "failed" ||
		!strings.Contains(out, "begins in its scratch directory") {
		t.Errorf("if the directory is closed to the user, the job %s: %s", phase, out)
	}
	if phase, out := run("/tmp", 0, ""); phase != "failed" || !strings.Contains(out, "begins in its scratch directory") {
		t.Errorf("in the host's own /tmp, the job %s: %s", phase, out)
	}
}
