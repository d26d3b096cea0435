package sqlite

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// This file owns what the tests of this package share.

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
