package e2e

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This file tests changes of a live job: its priority, its time limit, and a client that attaches.

// TestUpdate gives a running job more time, and then less than it has spent.
func TestUpdate(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "1")
	id := c.order("exec sleep 600", "--time-limit", "15s")
	c.await(id, "running")
	c.cli("update", id, "--time-limit", "1h").wants(t, 0, "Job "+id+" has time limit 1h\n", "")
	time.Sleep(15500 * time.Millisecond)
	c.await(id, "running")

	first, second := c.order("true"), c.order("exec sleep 600")
	c.cli("priority", second, "5").wants(t, 0, "Job "+second+" has priority 5\n", "")
	c.cli("update", second, "--array-max-running", "2").
		wants(t, 2, "", "--array-max-running: is set, but the job is not an array\nhint: name an array")
	c.cli("update", id, "--time-limit", "2s").wants(t, 0,
		"which the current attempt has exceeded: the job is being ended\n", "")
	c.cli("wait", id).wants(t, 6, "", "timed-out")
	c.await(second, "running")
	if s := c.job(first); s.Phase != "queued" {
		t.Errorf("the job of lower priority is %s", s.Phase)
	}
	c.cli("describe", "job", second).wants(t, 0, "Changed by:", "")
}

// TestAttach checks that a client that attaches to a job sees its output from the beginning, with separate streams, and
// ends as the job does. An interrupt must not affect the job.
func TestAttach(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	dir := t.TempDir()
	id := c.submit(writing(t, dir, gang(1, 1, "echo shown; echo told >&2; until [ -e "+dir+"/go ]; do sleep 0.1; done; "+
		"echo last; exit 3")))
	joined := c.command(filepath.Join(bin, "synapse-cli"), "attach", id)
	ended := make(chan result, 1)
	go func() { ended <- ask(t, joined) }()

	left := c.command(filepath.Join(bin, "synapse-cli"), "attach", id)
	out, err := left.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	left.Stderr = &told
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || first != "shown\n" {
		t.Errorf("attach shows %q, %v", first, err)
	}
	if err := left.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _ = left.Wait(); left.ProcessState.ExitCode() != 130 || !strings.Contains(told.String(), "detached from job "+id) {
		t.Errorf("an interrupt ended it with %d: %s", left.ProcessState.ExitCode(), &told)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if a := (<-ended).wants(t, 3, "shown\nlast\n", "told\n"); strings.Contains(a.out, "told") {
		t.Errorf("errors are mixed into the output: %s", a.out)
	}
	c.cli("attach", id, "--tail", "1").wants(t, 3, "last\n", "")
}
