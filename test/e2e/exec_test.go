package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests exec sessions with real processes, from the command line to the task and back. A killed process on
// the way must not harm the task.

func TestExec(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"process", "carapace"} {
		t.Run(driver, func(t *testing.T) { executes(t, clusterOf(t, driver)) })
	}
}

func executes(t *testing.T, c *cluster) {
	n := c.node("n1", "r1")
	ends := filepath.Join(t.TempDir(), "end")
	id := c.submit(writing(t, filepath.Dir(ends), gang(2, 1, "until test -e "+ends+"; do sleep 0.05; done; exit 9")))
	c.await(id, "running")
	c.cli("exec", id+":1", "--", "sh", "-c", "echo rank $SYNAPSE_RANK; echo wrong >&2; exit 7").
		wants(t, 7, "rank 1\n", "wrong\n")
	fed := c.command(filepath.Join(bin, "synapse-cli"), "exec", id, "-i", "--", "wc", "-c")
	fed.Stdin = strings.NewReader(strings.Repeat("x", 3<<20))
	ask(t, fed).wants(t, 0, "3145728", "")
	c.cli("exec", id, "-t", "--", "sh", "-c", "test -t 1 && echo a terminal").wants(t, 0, "a terminal", "")
	c.cli("exec", id, "--", "no-such-program").wants(t, 127, "", "no-such-program")
	c.cli("exec", id+":2", "--", "true").wants(t, 3, "", "job has ranks 0 to 1, and no rank 2")
	c.cli("exec", id+":x", "--", "true").wants(t, 2, "", "the rank after the colon must be a number from 0")
	c.cli("exec", id[:12]+":1", "--", "sh", "-c", "echo rank $SYNAPSE_RANK").wants(t, 0, "rank 1\n", "")
	c.cli("exec", "nobody", "--", "true").wants(t, 3, "", `unknown job "nobody"`)
	c.cli("exec", id, "true").wants(t, 2, "", "only one JOB may precede --")

	// If the client is killed, the session ends although no data is sent.
	began := filepath.Join(filepath.Dir(ends), "began")
	waits := []string{"exec", id, "--", "sh", "-c", "echo $$ > " + began + "; exec sleep 1000"}
	killed := ask(t, c.command(filepath.Join(bin, "synapse-cli"), waits...), func(pid int) {
		appears(t, began)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	})
	if killed.code >= 0 {
		t.Errorf("the client ended with %d", killed.code)
	}
	goes(t, id, "sleep 1000")

	// A killed agent ends its sessions with an error, and the next agent starts new ones.
	lost := ask(t, c.command(filepath.Join(bin, "synapse-cli"), waits...), func(int) {
		appears(t, began)
		n.kill()
	})
	lost.wants(t, 8, "", "connection to the node was lost, and the process was ended")
	c.node("n1", "r1")
	goes(t, id, "sleep 1000")
	again := func() {
		t.Helper()
		limit := pace.Until(60 * time.Second)
		for c.cli("exec", id, "--", "true").code != 0 && time.Now().Before(limit) {
			time.Sleep(100 * time.Millisecond)
		}
		c.cli("exec", id, "--", "sh", "-c", "echo again").wants(t, 0, "again", "")
	}
	again()

	// So does a killed scheduler, perhaps before its client learned that the process began. The task continues.
	unled := ask(t, c.command(filepath.Join(bin, "synapse-cli"), waits...), func(int) {
		appears(t, began)
		c.scheduler.kill()
	})
	unled.wants(t, 8, "", "synapse-cli: ")
	goes(t, id, "sleep 1000")
	c.lead(c.address)
	again()

	// The task ends normally, and its exec sessions end with it.
	over := ask(t, c.command(filepath.Join(bin, "synapse-cli"), waits...), func(int) {
		appears(t, began)
		if err := os.WriteFile(ends, nil, 0o644); err != nil {
			t.Error(err)
		}
	})
	over.wants(t, 137, "", "the task has ended")
	if s := c.await(id, "failed"); s.Record.ExitCode != 9 || s.Record.Runs != 1 {
		t.Errorf("the job ended with %d after %d attempts", s.Record.ExitCode, s.Record.Runs)
	}
	c.cli("exec", id, "--", "true").wants(t, 4, "", "job is failed, not running")
}

// appears waits for a file, and removes it for the next use.
func appears(t *testing.T, path string) {
	t.Helper()
	for limit := pace.Until(30 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Errorf("%s does not appear", path)
}

// goes waits until no process of a job runs this command.
func goes(t *testing.T, id, command string) {
	t.Helper()
	for limit := pace.Until(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := 0
		texts, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range texts {
			text, _ := os.ReadFile(path)
			env, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
			if strings.ReplaceAll(strings.Trim(string(text), "\x00"), "\x00", " ") == command &&
				strings.Contains(string(env), "SYNAPSE_JOB_ID="+id) {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Errorf("%d processes %q are left", left, command)
			return
		}
	}
}
