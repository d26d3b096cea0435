package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file tests the start guarantee of a waiting gang on a cluster of real processes. Smaller jobs run meanwhile
// without delaying it, and the guarantee outlives the leader.

// lookingAhead returns a cluster whose planner looks ahead, with two nodes of one rack. Its anti-starvation credit
// grows quickly, so that a gang gets a start guarantee within seconds.
func lookingAhead(t *testing.T, more ...string) (c *cluster, args []string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(config, []byte("policy:\n  order: expected\n  antiStarvationShare: 50\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--config", config}, more...)
	c = newCluster(t, args...)
	c.node("n1", "r1")
	c.node("n2", "r1")
	return c, args
}

// limited returns a gang of whole nodes with a time limit.
func limited(tasks int32, limit time.Duration, shell string) *messages.JobSpec {
	spec := gang(tasks, 8, shell)
	spec.TimeLimitMs = limit.Milliseconds()
	return spec
}

// busy returns a job that occupies a node until free is called.
func (c *cluster) busy(t *testing.T) (id string, free func()) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "free")
	id = c.submit(writing(t, dir, limited(1, 2*time.Minute, "until [ -e "+file+" ]; do sleep 0.05; done")))
	c.await(id, "running")
	return id, func() {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// isServedFirst waits for the end of a gang with reserved nodes and of a job that would have used a part of them for an
// hour. The gang must have started first.
func (c *cluster) isServedFirst(big, long string) {
	c.t.Helper()
	gang, other := c.await(big, "succeeded"), c.await(long, "succeeded")
	if other.Attempt.CommittedUnixMs < gang.Attempt.CommittedUnixMs {
		c.t.Errorf("the long job started before the gang, whose nodes it would have used for an hour: %v", other)
	}
}

// promised waits until a job's start guarantee is on disk and shown with its latest time.
func (c *cluster) promised(id string) *messages.JobStatus {
	c.t.Helper()
	return c.until(id, "promised", func(s *messages.JobStatus) bool {
		return s.Record.Promise != nil && s.Prospect.GetBasis() == messages.Basis_BASIS_LIMITS && s.Prospect.LatestUnixMs > 0
	})
}

// TestBigGangGetsItsTurn occupies one node for a while, and a gang needs both. A short job must run on the other node
// meanwhile, a long one must not, and the gang must start when the first job has ended.
func TestBigGangGetsItsTurn(t *testing.T) {
	c, _ := lookingAhead(t)
	busy, free := c.busy(t)
	big := c.submit(limited(2, time.Minute, "exec sleep 1"))
	c.promised(big)
	long := c.submit(limited(1, time.Hour, "exec sleep 1"))
	short := c.submit(limited(1, 5*time.Second, "true"))
	c.await(short, "succeeded")
	free()
	c.isServedFirst(big, long)
	if s := c.await(busy, "succeeded"); s.Record.Runs != 1 {
		t.Errorf("the first job is %s after %d attempts: %s", s.Phase, s.Record.Runs, s.Reason)
	}
}

// TestPromiseOutlivesTheLeader kills the scheduler while a gang waits. The next one must reserve the same nodes until
// the same time, and write nothing for that.
func TestPromiseOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) { promiseOutlives(t) })
	t.Run("PostgreSQL", func(t *testing.T) {
		everywhere(t)
		promiseOutlives(t, "--store", pgtest.Start(t).Database(t))
	})
}

func promiseOutlives(t *testing.T, more ...string) {
	c, args := lookingAhead(t, more...)
	_, free := c.busy(t)
	big := c.submit(limited(2, time.Minute, "exec sleep 1"))
	before := c.promised(big)
	long := c.submit(limited(1, time.Hour, "exec sleep 1"))

	killed := time.Now()
	c.scheduler.kill()
	c.lead(c.address, args...)
	after := c.promised(big)
	if was, is := before.Prospect, after.Prospect; !slices.Equal(was.Kept, is.Kept) {
		t.Errorf("nodes %v were reserved for the gang, and %v under the next leader", was.Kept, is.Kept)
	}
	// The node reports the run time of the first job when it finds a scheduler, which may become the leader later.
	// The latest start is later by that time, and never by more than the takeover took.
	moved := time.Duration(after.Prospect.LatestUnixMs-before.Prospect.LatestUnixMs) * time.Millisecond
	if moved > time.Since(killed)+time.Second || moved < -time.Second {
		t.Errorf("the latest start moved by %s with the takeover, %s after the leader's end", moved, time.Since(killed))
	}
	if was, is := before.Record.Revision, after.Record.Revision; was != is {
		t.Errorf("the gang's record was written again: revision %d, then %d", was, is)
	}
	free()
	c.isServedFirst(big, long)
}
