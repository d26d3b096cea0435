package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns the way back after the scheduler's disk was lost.

// operator runs the scheduler's own commands.
func operator(args ...string) (string, error) {
	out, err := exec.Command(filepath.Join(bin, "synapse-scheduler"), args...).CombinedOutput()
	return string(out), err
}

// healthy tells whether a scheduler would take a job: one that it has taken already.
func healthy(c *cluster) bool {
	_, err := c.client.Submit(c.ctx(), &messages.Submit{RequestId: "again", Spec: gang(1, 1, "exit 3"), AllowInfeasible: true})
	return err == nil
}

// TestBackupAndRestore: a backup is taken while the scheduler serves. After the
// loss of its folder what was in the backup runs on, what came later is stopped,
// and machines obey the restored scheduler.
func TestBackupAndRestore(t *testing.T) {
	c := newCluster(t)
	t.Cleanup(func() { killAll(c.dir) })
	c.node("n1", "r1")
	early, earlyStarts := witness(t, 2, 1, "exec sleep 60")
	kept := c.submit(early)
	c.await(kept, "running", 10*time.Second)
	if !healthy(c) {
		t.Fatal("a job was refused")
	}
	over := c.submit(gang(1, 1, "exit 3"))
	c.await(over, "failed", 10*time.Second)

	data := filepath.Join(c.dir, "scheduler")
	file := filepath.Join(c.dir, "backup.db")
	if said, err := operator("backup", "--data-dir", data, file); err != nil || !strings.Contains(said, "written to "+file) {
		t.Fatalf("backup: %v: %s", err, said)
	}
	for name, args := range map[string][]string{
		"choose another name":    {"backup", "--data-dir", data, file},
		"there is no database":   {"backup", "--data-dir", filepath.Join(c.dir, "none"), file + "2"},
		"takes one FILE, not 0":  {"backup"},
		"it is not empty":        {"restore", "--data-dir", data, file},
		"no such file":           {"restore", "--data-dir", filepath.Join(c.dir, "empty"), file + "2"},
		"only the sqlite store ": {"restore", "--store", "postgres://db/synapse", file},
	} {
		if said, err := operator(args...); err == nil || !strings.Contains(said, name) || strings.Count(said, "\n") > 2 {
			t.Errorf("%v: %v: %s", args, err, said)
		}
	}

	late := c.submit(gang(1, 1, "exec sleep 61"))
	c.await(late, "running", 10*time.Second)
	c.scheduler.kill()
	<-c.scheduler.ended
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if said, err := operator("restore", "--data-dir", data, file); err != nil || !strings.Contains(said, "restored from "+file) {
		t.Fatalf("restore: %v: %s", err, said)
	}
	c.lead(c.address)
	c.client = c.dial()
	limit := time.Now().Add(10 * time.Second) // until it has heard of its machines it takes no jobs
	for !healthy(c) {
		if time.Now().After(limit) {
			t.Fatal("the restored scheduler takes no jobs")
		}
		time.Sleep(20 * time.Millisecond)
	}

	// A new gang needs all that is left, so the machine must have obeyed and let go of what nobody knows.
	all := c.submit(gang(1, 6, "exit 0"))
	c.await(all, "succeeded", 20*time.Second)
	if s := c.job(kept); s.Phase != "running" || s.Record.Runs != 1 || earlyStarts() != 2 {
		t.Errorf("what was in the backup is %s after %d runs and %d starts", s.Phase, s.Record.Runs, earlyStarts())
	}
	if s := c.job(over); s.Phase != "failed" || s.Record.ExitCode != 3 {
		t.Errorf("what was over is %s", s.Phase)
	}
}
