package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the tests of finished jobs in an older version's file.

// TestThePastOfAnOlderSchema checks that a file of schema 2 is migrated, and that its finished jobs can then be read by
// queue.
func TestThePastOfAnOlderSchema(t *testing.T) {
	s := fresh(t)
	epoch, err := s.Lead("tester")
	if err != nil {
		t.Fatal(err)
	}
	for i, queue := range []string{"research", "", "night", "research"} {
		j := submitted(epoch, string(rune('a'+i)), uint64(i+1))
		j.Spec.Queue, j.State, j.FinishedUnixMs = queue, messages.JobState_JOB_STATE_SUCCEEDED, int64(i+1)
		applied(t, s, epoch, actors.Change{Job: j})
	}
	if _, err := s.Prune(epoch, 2, 10); err != nil { // a row without a record
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, s.path, "DROP INDEX job_finished_owner", "DROP INDEX job_finished_queue",
		"ALTER TABLE job DROP COLUMN queue",
		"DROP INDEX job_script", "ALTER TABLE job DROP COLUMN script", "DROP TABLE script", "DROP TABLE policy",
		"DROP TABLE unlearned", "DROP TABLE queues", "DROP TABLE pass", "DROP TABLE head",
		"DROP TABLE version", "ALTER TABLE leader DROP COLUMN uid_turn", "PRAGMA user_version = 2")
	s = opened(t, s.path)
	page, err := s.History(store.Past{Queue: "research", Look: 10})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Job.Id != "d" {
		t.Fatalf("history of the queue: %v, %v", page, err)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	// There are no statistics of earlier attempts, and new statistics are stored.
	if epoch, err = s.Lead("tester"); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Load(epoch); err != nil || l.Policy != nil || len(l.Unlearned) != 0 {
		t.Fatalf("statistics: %+v, %v", l, err)
	}
	applied(t, s, epoch, actors.Change{
		Policy: &messages.PolicyRecord{WrittenBy: &messages.Token{Epoch: epoch, Counter: 1}},
	})
	if l, err := s.Load(epoch); err != nil || l.Policy == nil {
		t.Fatalf("statistics: %+v, %v", l, err)
	}
}

// TestCheckHoldsTheQueue checks that a column which differs from the record counts as damage.
func TestCheckHoldsTheQueue(t *testing.T) {
	path := small(t)
	edit(t, path, "UPDATE job SET queue = 'other' WHERE id = 'over'")
	s := opened(t, path)
	if err := s.Check(); err == nil {
		t.Fatal("a queue that no record has was not noticed")
	}
	if err := s.Backup(filepath.Join(t.TempDir(), "copy.db")); err != nil {
		t.Fatal(err)
	}
}
