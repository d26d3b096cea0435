package sqlite

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/storetest"
)

// This file owns that SQLite keeps the contract of all stores, and what the
// tests of this package share.

func opened(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func fresh(t testing.TB) *Store {
	t.Helper()
	return opened(t, filepath.Join(t.TempDir(), "synapse.db"))
}

// left is what a killed process leaves of a store: the files as the disk has
// them, without anything that closing would have done.
func left(t testing.TB, s *Store) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "synapse.db")
	for _, suffix := range []string{"", "-wal"} {
		copyFile(t, s.path+suffix, path+suffix)
	}
	return path
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSQLiteKeepsTheContract(t *testing.T) { storetest.Contract(t, killable, harm) }

// harm takes the last byte of records, in the store's own transaction.
func harm(t *testing.T, s store.Store, table, id string) {
	t.Helper()
	w := s.(*Store).write
	key := map[string]string{"job": "id", "attempt": "job", "node": "id"}[table]
	if err := w.transact(func() error {
		return w.change(1, "UPDATE "+table+" SET record = substr(record, 1, length(record) - 1) WHERE "+key+" = ?", id)
	}); err != nil {
		t.Fatal(err)
	}
}

func TestSQLiteDoesAsMemoryDoes(t *testing.T) { storetest.Histories(t, killable, 20, 150) }

// killable is an empty store and what a kill leaves of it.
func killable(t *testing.T) (store.Store, func() store.Store) {
	s := fresh(t)
	return s, func() store.Store {
		s = opened(t, left(t, s))
		return s
	}
}
