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

// This file owns what a leader that is killed leaves of what it learned: how long jobs ran, and what queues used.

// TestLearnedOutlivesTheLeader kills the scheduler right after jobs ended, and again when it has written down what it
// learned of them: both times all of it is on disk, each job once, with the time that it ran. The next leader expects
// of a job like those that it is as short.
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
	var ran time.Duration // of all jobs
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
		if off := (of - ran).Abs(); n != 3 || off > ran/100 { // what is older counts a little less
			t.Fatalf("%d jobs of %s are on disk, and 3 of %s have ended", n, of, ran)
		}
	}
	same(next())
	for limit := pace.Until(5 * time.Minute); ; {
		time.Sleep(65 * time.Second) // what was learned is written down once a minute, and each leader begins a new one
		late := next()
		same(late)
		if late.Policy != nil && len(late.Unlearned) == 0 {
			if used := late.Policy.Uses; len(used) != 1 || used[0].Queue != "a" ||
				(time.Duration(used[0].MilliGpuMs)-time.Duration(8000*ran.Milliseconds())).Abs() > time.Duration(
					80*ran.Milliseconds()) {
				t.Errorf("the queue has used %v, and had 8 GPUs for %s", used, ran)
			}
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("nothing of what was learned is written down: %v", late.Unlearned)
		}
	}
	c.nextIsBrief()
}

// nextIsBrief: of a job like those that ended it is expected that it is gone within minutes. Of one of which nobody
// knows anything it is an hour.
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
		c.t.Errorf("after jobs of less than a second the next is expected to take %s", in)
	}
}

// onDisk is what a next leader would find: the test leads for a moment.
func (c *cluster) onDisk(open func(dir string) (store.Store, error)) *actors.Loaded {
	c.t.Helper()
	var err error
	for limit := pace.Until(time.Minute); time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
		var s store.Store
		if s, err = open(c.dir); err != nil {
			continue
		}
		var epoch uint64
		if epoch, err = s.Lead("test"); err == nil { // a leader that is killed has its lease for a while
			var loaded *actors.Loaded
			if loaded, err = s.Load(epoch); err == nil {
				s.Close()
				return loaded
			}
		}
		s.Close()
	}
	c.t.Fatalf("what is on disk cannot be read: %v", err)
	return nil
}

// learnedOf is of how many jobs something is learned, and for how long they ran: by what all jobs have in common, and
// by what ended since that was written.
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
