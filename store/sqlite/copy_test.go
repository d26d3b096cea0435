package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/store"
)

// This file owns the tests of copies of files that are not opened as a store.

// TestBackupFileAndRestore checks that a process without the lock can back up a store in use. The restored store leads
// under an epoch that no earlier leader can have had.
func TestBackupFileAndRestore(t *testing.T) {
	s := fresh(t)
	cluster, err := s.ClusterID("c-1")
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := s.Lead("tester")
	if err != nil {
		t.Fatal(err)
	}
	applied(t, s, epoch, three(epoch)...)
	dir := t.TempDir()
	backup := filepath.Join(dir, "backup.db")
	if err := BackupFile(s.path, backup); err != nil {
		t.Fatal(err)
	}
	if err := BackupFile(s.path, backup); !errors.Is(err, os.ErrExist) {
		t.Fatalf("a backup in the place of another: %v", err)
	}
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != fileMode {
		t.Fatalf("the backup's mode: %v (%v)", info.Mode(), err)
	}
	restored := filepath.Join(dir, "restored.db")
	if err := Restore(backup, restored); err != nil {
		t.Fatal(err)
	}
	if err := Restore(backup, restored); !errors.Is(err, os.ErrExist) {
		t.Fatalf("a restore in the place of another: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Fatalf("files next to the copies: %v (%v)", entries, err)
	}
	r := opened(t, restored)
	if next, err := r.Lead("after the fire"); err != nil || next < epoch+restoredEpochs {
		t.Fatalf("epoch %d after %d (%v)", next, epoch, err)
	}
	if same, err := r.ClusterID("c-2"); err != nil || same != cluster {
		t.Fatalf("the cluster is %q and was %q (%v)", same, cluster, err)
	}
	if job, attempts, err := r.Job("a"); err != nil || job.Id != "a" || len(attempts) != 1 {
		t.Fatalf("job a: %v, %v, %v", job, attempts, err)
	}
}

func TestCopiesThatAreRefused(t *testing.T) {
	whole := small(t)
	dir := t.TempDir()
	to := filepath.Join(dir, "to.db")
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	damaged := small(t)
	damage(t, damaged, "job", func(b []byte) []byte { b[len(b)-1]++; return b })
	newer := small(t)
	edit(t, newer, "PRAGMA user_version = 99")
	live := filepath.Join(dir, "live.db")
	if err := copyBytes(whole, live); err != nil {
		t.Fatal(err)
	}
	file("live.db-wal", "")
	for _, c := range []struct {
		name, from, words string
		copied            func(from, to string) error
	}{
		{"backup of nothing", filepath.Join(dir, "none.db"), "database does not exist", BackupFile},
		{"backup of another file", file("letter", strings.Repeat("Dear all, ", 500)), "not a database", BackupFile},
		{"backup of damage", damaged, "checksum", BackupFile},
		{"restore of nothing", filepath.Join(dir, "none.db"), "no such file", Restore},
		{"restore of an empty file", file("empty", ""), "file is empty", Restore},
		{"restore of damage", damaged, "checksum", Restore},
		{"restore of a newer one", newer, "newer synapse-scheduler", Restore},
		{"restore of a live one", live, "take a backup of that file first", Restore},
	} {
		err := c.copied(c.from, to)
		if err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", c.name, err, c.words)
		}
		for _, left := range []string{to, to + ".partial"} {
			if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s left %s (%v)", c.name, left, err)
			}
		}
	}
	if err := BackupFile(damaged, to); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a damaged store is not reported as damaged: %v", err)
	}
}
