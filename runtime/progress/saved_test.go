package progress

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// This file tests the acknowledgement file of a task.

// TestSavedFile checks which lines count: those of the request, complete lines at once, and a last line without a line
// break if it does not change. Everything else is ignored.
func TestSavedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ack.3")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var f SavedFile
	wants := func(steps ...int64) {
		t.Helper()
		if got, err := f.Read(dir, 3, 7); err != nil || !slices.Equal(got, steps) {
			t.Errorf("%v, %v, want %v", got, err, steps)
		}
	}
	wants()
	write("7 100\n")
	wants(100)
	write("6 90\n7 100\n7 101\n8 200\n7 x\n7 -1\n7 1 2\n\n7 100\n")
	wants(101, 100)
	write("7 100\n7 1")
	wants(100)
	write("7 100\n7 12")
	wants(100)
	wants(100, 12)
	write(strings.Repeat("7 1\n", 5000) + "7 55\n")
	wants(1, 55)
	write("")
	for n := range 20 {
		text, _ := os.ReadFile(path)
		write(string(text) + "7 " + strings.Repeat("1", n+1)[:min(n+1, 15)] + "\n")
	}
	if got, err := f.Read(dir, 3, 7); err != nil || len(got) != 8 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSavedFileOfOthers checks that a link, a pipe, a directory and a file of another user are refused with a reason.
func TestSavedFileOfOthers(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "ack.0"), filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("7 100\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	makes := []struct {
		what string
		make func() error
	}{
		{"link", func() error { return os.Symlink(other, path) }},
		{"pipe", func() error { return unix.Mkfifo(path, 0o644) }},
		{"directory", func() error { return os.Mkdir(path, 0o755) }},
	}
	if os.Geteuid() == 0 {
		makes = append(makes, struct {
			what string
			make func() error
		}{"another user's file", func() error {
			if err := os.WriteFile(path, []byte("7 100\n"), 0o644); err != nil {
				return err
			}
			return os.Chown(path, 4711, 4711)
		}})
	}
	for _, m := range makes {
		if err := m.make(); err != nil {
			t.Fatal(err)
		}
		var f SavedFile
		if got, err := f.Read(dir, 0, 7); err == nil || len(got) > 0 {
			t.Errorf("%s: %v, %v", m.what, got, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
