package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file tests a node that comes with the data directory of another cluster.

// hears waits until a process has printed these words.
func (p *process) hears(t *testing.T, words string) {
	t.Helper()
	for limit := time.Now().Add(patience); !strings.Contains(p.said(), words); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s did not print %q within %s", p.name, words, patience)
		}
	}
}

// TestMachineOfAnotherCluster checks that such a node is rejected with a message on both sides. Its tasks and the rest
// of the cluster must continue. Its own cluster must get it back unchanged, and the fix in the message must work.
func TestMachineOfAnotherCluster(t *testing.T) {
	old := newCluster(t)
	agent := old.node("n1", "r1")
	diary, spec := newDiary(t, 1, 1)
	spec.LostGraceMs = 60_000
	theirs := old.submit(spec)
	old.await(theirs, "running")
	diary.written(t, 0)
	task := diary.starts(0)[0]
	for range 2 { // its epochs are higher than those of the new cluster
		old.scheduler.kill()
		old.lead(old.address)
		old.scheduler.hears(t, "RegisterWorker: ID=n1")
	}
	old.client = old.dial()

	dir := filepath.Join(old.dir, "new")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: dir}
	c.lead("127.0.0.1:0")
	c.client = c.dial()
	c.node("n2", "r1")
	busy := c.submit(gang(1, 4, "exec sleep 600"))
	c.await(busy, "running")

	theirData := filepath.Join(old.dir, "n1")
	agent.kill()
	agent = c.agent("n1", "r1", "--data-dir", theirData)
	agent.hears(t, "Master refuses this node: node belongs to cluster c-")
	c.scheduler.hears(t, "[ERROR] Failed to register node n1: node belongs to cluster c-")
	c.await(c.submit(gang(1, 4, "exit 0")), "succeeded")
	if s := c.job(busy); s.Phase != "running" || s.Record.Runs != 1 || !alive(task) {
		t.Errorf("the cluster's job is %s, and the node's task continues: %t", s.Phase, alive(task))
	}
	if said := c.scheduler.said(); strings.Contains(said, "ADMISSIONS STOPPED") ||
		strings.Count(said, "Failed to register node") != 1 {
		t.Errorf("output of the scheduler:\n%s", said)
	}

	agent.kill()
	agent = old.node("n1", "r1")
	if s := old.await(theirs, "running"); s.Record.Runs != 1 || len(diary.starts(0)) != 1 || !alive(task) {
		t.Errorf("back in its own cluster the node's job has %d attempts and %v", s.Record.Runs, diary.starts(0))
	}

	agent.kill()
	if err := os.Rename(filepath.Join(theirData, "ledger"), filepath.Join(theirData, "ledger.old")); err != nil {
		t.Fatal(err)
	}
	agent = c.agent("n1", "r1", "--data-dir", theirData)
	agent.says(t, "Success! Master says: Welcome to Synapse")
	if alive(task) {
		t.Error("the node joined, but still runs tasks of its last cluster")
	}
	c.await(c.submit(gang(1, 8, "exit 0")), "succeeded")
}
