package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
)

// This file owns the tests of operations in parallel to the writer: backups, checks and reads.

func TestBackupWhileWriting(t *testing.T) {
	s := fresh(t)
	epoch, err := s.Lead("tester")
	if err != nil {
		t.Fatal(err)
	}
	applied(t, s, epoch, three(epoch)...)
	var stop atomic.Bool
	var wait sync.WaitGroup
	wait.Go(func() {
		for n := uint64(10); !stop.Load(); n++ {
			applied(t, s, epoch, actors.Change{Job: submitted(epoch, fmt.Sprintf("j%d", n), n)})
		}
	})
	copied := filepath.Join(t.TempDir(), "copy.db")
	err = s.Backup(copied)
	stop.Store(true)
	wait.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(copied); !errors.Is(err, os.ErrExist) {
		t.Fatalf("a backup took the place of another file: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(copied))
	if err != nil || len(entries) != 1 {
		t.Fatalf("the backup left %v behind (%v)", entries, err)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != fileMode {
		t.Fatalf("the backup's mode is %v (%v)", info.Mode(), err)
	}
	b := opened(t, copied)
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	if next, err := b.Lead("after the fire"); err != nil || next != epoch+1 {
		t.Fatalf("epoch %d (%v), want %d", next, err, epoch+1)
	}
	for _, c := range three(epoch) {
		if c.Job == nil {
			continue
		}
		job, attempts, err := b.Job("a")
		if err != nil || job.Id != "a" || len(attempts) != 1 {
			t.Fatalf("job a in the backup: %v, %v, %v", job, attempts, err)
		}
	}
}

// TestCheckReadsThePast checks that Check also finds damage in records that no leader reads any more.
func TestCheckReadsThePast(t *testing.T) {
	path := small(t)
	edit(t, path, "DELETE FROM job WHERE id = 'running'", "DELETE FROM attempt")
	s := opened(t, path)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, path, "job", func(b []byte) []byte { b[len(b)-1]++; return b })
	s = opened(t, path)
	if err := s.Check(); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), `key "over"`) {
		t.Fatalf("check of a damaged record: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path = small(t)
	edit(t, path, "UPDATE attempt SET ended = 1")
	s = opened(t, path)
	if err := s.Check(); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "columns differ") {
		t.Fatalf("check of a wrong column: %v", err)
	}
}

// TestReadsDoNotWaitForWrites checks that a read continues during an open transaction, and sees nothing of it.
func TestReadsDoNotWaitForWrites(t *testing.T) {
	s := fresh(t)
	epoch, err := s.Lead("tester")
	if err != nil {
		t.Fatal(err)
	}
	old := submitted(epoch, "a", 1)
	applied(t, s, epoch, actors.Change{Job: old})
	err = s.write.transact(func() error {
		if err := s.write.script("UPDATE job SET revision = 9, request_id = 'another'"); err != nil {
			return err
		}
		if _, err := s.Load(epoch); err != nil {
			return err
		}
		if _, err := s.Finished(store.Position{}, 10); err != nil {
			return err
		}
		job, _, err := s.Requested("alice", "ra")
		if err == nil && !proto.Equal(job, old) {
			err = fmt.Errorf("it reads %v", job)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWritesDoNotWaitForReads checks that a write continues during an open read.
func TestWritesDoNotWaitForReads(t *testing.T) {
	s := fresh(t)
	epoch, err := s.Lead("tester")
	if err != nil {
		t.Fatal(err)
	}
	err = s.snapshot("look", func(tx *sql.Tx) error {
		var jobs int
		if err := tx.QueryRow("SELECT count(*) FROM job").Scan(&jobs); err != nil {
			return err
		}
		for n := range uint64(100) {
			applied(t, s, epoch, actors.Change{Job: submitted(epoch, fmt.Sprintf("j%d", n), n+1)})
		}
		if err := tx.QueryRow("SELECT count(*) FROM job").Scan(&jobs); err != nil || jobs != 0 {
			return fmt.Errorf("the read sees %d jobs (%v)", jobs, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestQueriesGoByIndexes checks that Load and the lookups of a transaction use an index and do not scan finished jobs.
func TestQueriesGoByIndexes(t *testing.T) {
	s := fresh(t)
	for _, text := range []string{
		liveJobs, liveAttempts,
		"SELECT id, record FROM job WHERE id = 'a' AND record IS NOT NULL",
		"SELECT id, record FROM job WHERE owner = 'a' AND request_id = 'r' AND request_id <> ''",
		fmt.Sprintf(jobsByID, "('a'),('b')"), fmt.Sprintf(jobsByRequest, "('a','r'),('b','r')"),
		fmt.Sprintf(headsByJob, "('a'),('b')"), fmt.Sprintf(attemptsByToken, "(1,2),(3,4)"),
		fmt.Sprintf(nodesByID, "('a'),('b')"),
		fmt.Sprintf(dropsByID, "('a'),('b')"), fmt.Sprintf(attemptsByJob, "('a'),('b')"),
		unlearnedJobs, unlearnedAttempts, strings.ReplaceAll(unnoteJob, "?", "'a'"), strings.ReplaceAll(unnote, "?", "1"),
	} {
		rows, err := s.reads.Query("EXPLAIN QUERY PLAN " + text)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		err = drain(rows, func(rows store.Row) error {
			var id, parent, unused int
			var detail string
			err := rows.Scan(&id, &parent, &unused, &detail)
			plan = append(plan, detail)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range plan {
			scans := strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "job_live") &&
				!strings.Contains(step, "CONSTANT ROW") &&
				!strings.Contains(step, "-ROW VALUES CLAUSE") && step != "SCAN u" // the table of unlearned attempts is small
			if scans {
				t.Errorf("%s\nwalks a whole table:\n%s", text, strings.Join(plan, "\n"))
			}
		}
	}
}
