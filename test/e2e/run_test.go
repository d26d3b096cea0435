package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests that a job of `run` and its command end together, whichever part ends first.

func TestRun(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"process", "carapace"} {
		t.Run(driver, func(t *testing.T) { runs(t, clusterOf(t, driver)) })
	}
}

func runs(t *testing.T, c *cluster) {
	c.node("n1", "r1")
	last := func(phase string) *messages.JobRecord {
		t.Helper()
		return c.await(c.newest(), phase).GetRecord()
	}
	c.cli("run", "--name", "seven", "--", "sh", "-c", "echo out; echo wrong >&2; exit 7").wants(t, 7, "out\n", "wrong\n")
	if r := last("failed"); r.GetExitCode() != 7 || r.GetSpec().GetName() != "seven" {
		t.Errorf("the job ended with %d: %s", r.GetExitCode(), r.GetOutcome())
	}
	fed := c.command(filepath.Join(bin, "synapse-cli"), "run", "wc", "-c")
	fed.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
	ask(t, fed).wants(t, 0, "1048576", "")
	last("succeeded")
	c.cli("run", "--replicas", "3", "--pty", "--", "sh", "-c", "test -t 1 || echo pipe of $SYNAPSE_WORLD_SIZE").
		wants(t, 0, "pipe of 3", "synapse-cli: no terminal is allocated: standard input is not a terminal")
	last("succeeded")
	c.cli("run", "no-such-program").wants(t, 127, "", "no-such-program")
	last("failed")
	c.cli("run", "--time-limit", "1s", "--", "sleep", "1000").wants(t, 6, "", "timed-out")

	// If its client is killed, a job ends with its command, unless it should stay.
	began := filepath.Join(t.TempDir(), "began")
	shared := filepath.Dir(began)
	for _, dir := range []string{filepath.Dir(shared), shared} { // tasks have their own users
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, keep := range []bool{false, true} {
		words := []string{"run", "--mount", shared + ":" + shared, "--", "sh", "-c", "echo $$ > " + began +
			"; exec sleep 1000"}
		if keep {
			words = append([]string{"run", "--keep"}, words[1:]...)
		}
		ask(t, c.command(filepath.Join(bin, "synapse-cli"), words...), func(pid int) {
			appears(t, began)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		})
		id := c.newest()
		goes(t, id, "sleep 1000")
		if !keep {
			if r := last("failed"); r.GetExitCode() != 129 {
				t.Errorf("the job without its client ended with %d: %s", r.GetExitCode(), r.GetOutcome())
			}
			continue
		}
		c.cli("exec", id, "--", "echo", "inside").wants(t, 0, "inside", "")
		c.cli("cancel", id).wants(t, 0, "", "")
		last("cancelled")
	}

	// Ctrl-C cancels a waiting job.
	waits := c.command(filepath.Join(bin, "synapse-cli"), "run", "--allow-infeasible", "--gpu", "64", "--", "true")
	ask(t, waits, func(pid int) {
		for limit := pace.Until(60 * time.Second); c.newestPhase() != "queued" && time.Now().Before(limit); {
			time.Sleep(20 * time.Millisecond)
		}
		_ = syscall.Kill(pid, syscall.SIGINT)
	}).wants(t, 130, "", "")
	last("cancelled")
	if _, err := os.Stat(began); err == nil {
		t.Error("a process started that no client requested")
	}
}

// newest returns the ID of the job that was submitted last.
func (c *cluster) newest() string {
	c.t.Helper()
	return c.newestJob().GetRecord().GetId()
}

func (c *cluster) newestPhase() string { return c.newestJob().GetPhase() }

func (c *cluster) newestJob() (newest *messages.JobStatus) {
	c.t.Helper()
	reply, err := c.client.ListJobs(c.ctx(), &messages.ListJobs{Limit: messages.MaxPageEntries})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, j := range reply.GetJobs() {
		if newest == nil || j.GetRecord().GetArrival() > newest.GetRecord().GetArrival() {
			newest = j
		}
	}
	return newest
}
