package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/postgres"
	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file tests which estimates survive the death of a leader: the run times of jobs, and the usage of queues.

// TestLearnedOutlivesTheLeader kills the scheduler right after jobs ended, and again after it has saved their
// estimates. Both times all jobs must be on disk, each once, with its run time. The next leader must expect the same
// short run time of a similar job.
func TestLearnedOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		learnedOutlives(t, nil, func(dir string) (store.Store, error) {
			return sqlite.Open(filepath.Join(dir, "scheduler", "synapse.db"))
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		everywhere(t)
		url := pgtest.Start(t).Database(t)
		learnedOutlives(t, []string{"--store", url}, func(string) (store.Store, error) {
			return postgres.Open(postgres.Options{URL: url})
		})
	})
}

func learnedOutlives(t *testing.T, more []string, open func(dir string) (store.Store, error)) {
	c := newCluster(t, more...)
	c.node("n1", "r1")
	file := filepath.Join(t.TempDir(), "queues.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: synapse/v1\nkind: Queues\nqueues:\n- {name: a}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	c.cli("apply", "-f", file).wants(t, 0, "queues applied", "")
	var ran time.Duration // sum over all jobs
	brief := func() {
		t.Helper()
		spec := gang(1, 8, "exec sleep 0.3")
		spec.Queue = "a"
		s := c.await(c.submit(spec), "succeeded")
		ran += actors.Millis(s.Attempt.End.RanMs)
	}
	for range 3 {
		brief()
	}

	next := func() *actors.Loaded {
		t.Helper()
		c.scheduler.kill()
		loaded := c.onDisk(open)
		c.lead(c.address, more...)
		return loaded
	}
	same := func(l *actors.Loaded) {
		t.Helper()
		n, of := learnedOf(l)
		if off := (of - ran).Abs(); n != 3 || off > ran/100 { // older usage counts slightly less
			t.Fatalf("%d jobs of %s are on disk, but 3 of %s have ended", n, of, ran)
		}
	}
	same(next())
	for limit := pace.Until(5 * time.Minute); ; {
		time.Sleep(65 * time.Second) // estimates are saved once a minute, and each leader starts a new minute
		late := next()
		same(late)
		if late.Policy != nil && len(late.Unlearned) == 0 {
			if used := late.Policy.Uses; len(used) != 1 || used[0].Queue != "a" ||
				(time.Duration(used[0].MilliGpuMs)-time.Duration(8000*ran.Milliseconds())).Abs() > time.Duration(
					80*ran.Milliseconds()) {
				t.Errorf("the queue has used %v, but had 8 GPUs for %s", used, ran)
			}
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("no estimates were saved: %v", late.Unlearned)
		}
	}
	c.nextIsBrief()
}

// nextIsBrief checks that a job similar to the ended ones is expected to end within minutes. A job without estimates is
// expected to run an hour.
func (c *cluster) nextIsBrief() {
	c.t.Helper()
	spec := gang(1, 8, "exec sleep 600")
	spec.Queue = "a"
	busy := c.submit(spec)
	c.await(busy, "running")
	waits := c.until(c.submit(spec), "told when it starts", func(s *messages.JobStatus) bool {
		return s.Prospect.GetAtUnixMs() > 0
	})
	if in := time.Until(time.UnixMilli(waits.Prospect.AtUnixMs)); in > 40*time.Minute {
		c.t.Errorf("after jobs of less than a second the next job's estimate is %s", in)
	}
}

// onDisk returns what a next leader would load. The test leads for a moment.
func (c *cluster) onDisk(open func(dir string) (store.Store, error)) *actors.Loaded {
	c.t.Helper()
	var err error
	for limit := pace.Until(time.Minute); time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
		var s store.Store
		if s, err = open(c.dir); err != nil {
			continue
		}
		var epoch uint64
		if epoch, err = s.Lead("test"); err == nil { // a killed leader keeps its lease for a while
			var loaded *actors.Loaded
			if loaded, err = s.Load(epoch); err == nil {
				s.Close()
				return loaded
			}
		}
		s.Close()
	}
	c.t.Fatalf("the records on disk cannot be read: %v", err)
	return nil
}

// learnedOf returns the number of learned jobs and their total run time, from the estimates of all jobs and from the
// ends since they were saved.
func learnedOf(l *actors.Loaded) (jobs int64, ran time.Duration) {
	for _, cell := range l.Policy.GetCells() {
		if cell.Level == messages.CellLevel_CELL_LEVEL_POOL {
			jobs += cell.Ended
			ran += time.Duration(cell.Sum) * 100 * time.Microsecond
		}
	}
	for _, e := range l.Unlearned {
		jobs++
		ran += actors.Millis(e.Attempt.End.RanMs)
	}
	return jobs, ran
}
