package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests recovery after the loss of the scheduler's disk.

// operator runs the scheduler's own commands.
func operator(args ...string) (string, error) {
	out, err := exec.Command(filepath.Join(bin, "synapse-scheduler"), args...).CombinedOutput()
	return string(out), err
}

// healthy reports whether a scheduler accepts jobs. It repeats a submit that was already accepted.
func healthy(c *cluster) bool {
	_, err := c.client.Submit(c.ctx(), &messages.Submit{
		RequestId: "again", Spec: gang(1, 1, "exit 3"), AllowInfeasible: true,
	})
	return err == nil
}

// told waits until the scheduler has logged that its records are too old, and returns the flag that the line names.
func (c *cluster) told(within time.Duration) string {
	c.t.Helper()
	for limit := time.Now().Add(within); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		if flag := regexp.MustCompile(`ADMISSIONS STOPPED: .*(--accept-loss=[0-9]+)`).FindStringSubmatch(c.scheduler.said()); flag != nil {
			return flag[1]
		}
	}
	c.t.Fatalf("the scheduler does not log what it has lost:\n%s", c.scheduler.said())
	return ""
}

// TestBackupAndRestore makes a backup while the scheduler serves. After the loss of its directory, jobs in the backup
// must continue. The operator must be informed of later jobs, and nothing may be started or stopped before the operator
// decides.
func TestBackupAndRestore(t *testing.T) {
	c := newCluster(t)
	t.Cleanup(func() { killAll(c.dir) })
	c.node("n1", "r1")
	early, earlyStarts := witness(t, 2, 1, "exec sleep 60")
	kept := c.submit(early)
	c.await(kept, "running")
	if !healthy(c) {
		t.Fatal("a job was rejected")
	}
	over := c.submit(gang(1, 1, "exit 3"))
	c.await(over, "failed")

	data := filepath.Join(c.dir, "scheduler")
	file := filepath.Join(c.dir, "backup.db")
	if said, err := operator("backup", "--data-dir", data, file); err != nil ||
		!strings.Contains(said, "written to "+file) {
		t.Fatalf("backup: %v: %s", err, said)
	}
	for name, args := range map[string][]string{
		"choose another name":     {"backup", "--data-dir", data, file},
		"database does not exist": {"backup", "--data-dir", filepath.Join(c.dir, "none"), file + "2"},
		"accepts one FILE, got 0": {"backup"},
		"folder is not empty":     {"restore", "--data-dir", data, file},
		"no such file":            {"restore", "--data-dir", filepath.Join(c.dir, "empty"), file + "2"},
		"the sqlite store only":   {"restore", "--store", "postgres://db/synapse", file},
	} {
		if said, err := operator(args...); err == nil || !strings.Contains(said, name) || strings.Count(said, "\n") > 2 {
			t.Errorf("%v: %v: %s", args, err, said)
		}
	}

	diary, lateSpec := newDiary(t, 1, 1)
	late := c.submit(lateSpec)
	c.await(late, "running")
	diary.written(t, 0)
	lost := diary.starts(0)[0]
	c.scheduler.kill()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if said, err := operator("restore", "--data-dir", data, file); err != nil ||
		!strings.Contains(said, "restored from "+file) {
		t.Fatalf("restore: %v: %s", err, said)
	}
	c.lead(c.address)
	c.client = c.dial()
	loss := c.told(10 * time.Second)
	if healthy(c) {
		t.Error("a job was accepted although the records are older than the cluster")
	}
	c.cli("get", "nodes").wants(t, 0, "admissions have stopped: n1 has attempt ", "")
	if s := c.job(kept); s.Phase != "running" || !alive(lost) {
		t.Errorf("the job in the backup is %s, and the later job runs: %t", s.Phase, alive(lost))
	}

	// The operator accepts the loss.
	c.scheduler.kill()
	c.lead(c.address, loss)
	c.client = c.dial()
	gone(t, lost)
	limit := pace.Until(10 * time.Second) // it accepts no jobs until its nodes have reported
	for !healthy(c) {
		if time.Now().After(limit) {
			t.Fatal("the restored scheduler accepts no jobs")
		}
		time.Sleep(20 * time.Millisecond)
	}

	// A new gang needs the rest of the cluster, so the node must have stopped the jobs that were given up.
	all := c.submit(gang(1, 6, "exit 0"))
	c.await(all, "succeeded")
	if s := c.job(kept); s.Phase != "running" || s.Record.Runs != 1 || earlyStarts() != 2 {
		t.Errorf("the job in the backup is %s after %d attempts and %d starts", s.Phase, s.Record.Runs, earlyStarts())
	}
	if s := c.job(over); s.Phase != "failed" || s.Record.ExitCode != 3 {
		t.Errorf("the finished job is %s", s.Phase)
	}
}

// TestCopiedRecords replaces the records by hand with an old copy. No node may obey its epochs, and the operator must
// see why. No gang may suffer, and a proper restore must repair everything.
func TestCopiedRecords(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1", "r1")
	spec, starts := witness(t, 2, 1, "exec sleep 60")
	id := c.submit(spec)
	c.await(id, "running")
	data := filepath.Join(c.dir, "scheduler")
	file := filepath.Join(c.dir, "backup.db")
	if said, err := operator("backup", "--data-dir", data, file); err != nil {
		t.Fatalf("backup: %v: %s", err, said)
	}
	again := func(bring func() error) {
		t.Helper()
		c.scheduler.kill()
		if bring != nil {
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			if err := bring(); err != nil {
				t.Fatal(err)
			}
		}
		c.lead(c.address)
		c.client = c.dial()
	}
	again(nil)
	again(nil)
	c.scheduler.says(t, "RegisterWorker: ID=n1, CPU=64, RAM=549755813888") // under its third epoch
	again(func() error {
		records, err := os.ReadFile(file)
		if err == nil {
			err = os.Mkdir(data, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(data, "synapse.db"), records, 0o600)
		}
		return err
	})
	for limit := pace.Until(10 * time.Second); !strings.Contains(c.scheduler.said(),
		"ADMISSIONS STOPPED: n1 follows a leader of epoch 3, but this leader has epoch 2"); {
		time.Sleep(20 * time.Millisecond)
		if time.Now().After(limit) {
			t.Fatalf("output of the node:\n%s\noutput of the scheduler:\n%s", n.said(), c.scheduler.said())
		}
	}
	if healthy(c) {
		t.Error("a job was accepted although the records are older than the cluster")
	}
	c.scheduler.says(t, "REAPER: Node n1 is DEAD (Missed Heartbeats)")
	c.cli("get", "nodes").wants(t, 0, "admissions have stopped: n1 follows a leader of epoch 3", "")

	again(func() error {
		said, err := operator("restore", "--data-dir", data, file)
		if err != nil {
			t.Log(said)
		}
		return err
	})
	for limit := pace.Until(15 * time.Second); !healthy(c); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the restored scheduler accepts no jobs")
		}
	}
	// The node was rejected for ten seconds, so up to three may pass until it tries again.
	c.eventually("n1 is up", func() bool { return c.machine("n1").Phase == "up" }, func() {})
	if s := c.await(id, "running"); s.Record.Runs != 1 || starts() != 2 {
		t.Errorf("the gang is %s after %d attempts and %d starts", s.Phase, s.Record.Runs, starts())
	}
}
