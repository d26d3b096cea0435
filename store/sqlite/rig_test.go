package sqlite

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// This file owns the setup of this package's tests.

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

// left returns a copy of the files that a killed process leaves, without the effects of closing the store.
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
