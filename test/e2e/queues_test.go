package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file tests queues in clusters of real processes: applied by the CLI, and enforced by the scheduler and by its
// successor.

const limitedQueues = `apiVersion: synapse/v1
kind: Queues
default: vision
queues:
- {name: nlp, quota: {gpu: 8}, limit: {gpu: 8}}
- {name: vision}
`

// TestQueuesOutliveTheLeader checks that a queue with a limit of one node's GPUs gets no more, however much is free,
// under the first scheduler and under the next.
func TestQueuesOutliveTheLeader(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) { queuesOutlive(t) })
	t.Run("PostgreSQL", func(t *testing.T) {
		everywhere(t)
		queuesOutlive(t, "--store", pgtest.Start(t).Database(t))
	})
}

func queuesOutlive(t *testing.T, more ...string) {
	c := newCluster(t, more...)
	for _, id := range []string{"n1", "n2", "n3"} {
		c.node(id, "r1")
	}
	file := filepath.Join(t.TempDir(), "queues.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of := func(queue, shell string) string {
		spec := gang(1, 8, shell)
		spec.Queue = queue
		return c.submit(spec)
	}
	early := of("nlp", "exec sleep 600") // running jobs count too
	c.await(early, "running")
	write(limitedQueues)
	c.cli("apply", "-f", file, "--dry-run").wants(t, 0, "dry run: queues would be applied (revision 1)\n", "")
	c.cli("apply", "-f", file).wants(t, 0, "queues applied (revision 1)\n", "")
	c.cli("apply", "-f", file).wants(t, 0, "queues unchanged (revision 1)\n", "")
	waits := of("nlp", "exec sleep 600")
	other := of("vision", "exec sleep 600")
	c.await(other, "running")
	still := func() {
		t.Helper()
		time.Sleep(time.Second)
		if s := c.job(waits); s.Phase != "queued" || s.Attempt != nil {
			t.Fatalf("queue nlp is at its limit, but another job of it is %s", s.Phase)
		}
	}
	still()

	c.scheduler.kill()
	c.lead(c.address, more...)
	passes := of("vision", "true") // after it has run, a pass has examined all jobs
	c.await(passes, "succeeded")
	still()
	ran := c.cli("get", "queues", "-o", "yaml").wants(t, 0, "revision: 1\n", "")
	write(strings.Replace(ran.out, "limit: {gpu: 8}", "limit: {gpu: 16}", 1))
	c.cli("apply", "-f", file).wants(t, 0, "queues applied (revision 2)\n", "")
	c.await(waits, "running")
	c.cli("get", "queues", "--parsable", "--no-headers").wants(t, 0, "nlp|8|16|50%|8|0|", "")
	write(strings.Replace(ran.out, "quota: {gpu: 8}", "quota: {gpu: 4}", 1))
	c.cli("apply", "-f", file).wants(t, 4, "", "file is based on revision 1, but the cluster has revision 2")

	// A limit below a queue's usage, and a deleted queue, stop no job.
	write(strings.Replace(limitedQueues, "- {name: nlp, quota: {gpu: 8}, limit: {gpu: 8}}\n", "", 1))
	c.cli("apply", "-f", file).wants(t, 0, "queues applied (revision 3)\n",
		"queue nlp is closed: the file does not contain the queue, which still has jobs")
	for _, id := range []string{early, waits, other} {
		if s := c.job(id); s.Phase != "running" || s.Record.Runs != 1 {
			t.Errorf("job %s is %s after %d attempts", id, s.Phase, s.Record.Runs)
		}
	}
	if s := c.job(waits); s.Record.State != messages.JobState_JOB_STATE_ACTIVE {
		t.Errorf("%v", s)
	}
}
