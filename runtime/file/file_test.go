package file

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestReplace checks that a new version completely replaces a longer and a shorter one, and that no other file is left.
func TestReplace(t *testing.T) {
	for name, replace := range map[string]func(string, []byte) error{"quickly": Replace, "durably": ReplaceDurably} {
		dir := t.TempDir()
		path := filepath.Join(dir, "record")
		for _, text := range []string{"one", "another, longer one", "two", ""} {
			if err := replace(path, []byte(text)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("%s: there is %q (%v), want %q", name, got, err, text)
			}
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("%s: left are %v", name, entries)
		}
	}
}

// TestReplaceTakesTheSpare checks that the reserved space is used for the next version, and that its content does not
// remain.
func TestReplaceTakesTheSpare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if err := os.WriteFile(Spare(path), bytes.Repeat([]byte{' '}, 9000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceDurably(path, []byte("done")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "done" {
		t.Errorf("%q %v", got, err)
	}
}

// TestReplaceFails checks that the previous version stays if the new one cannot be written.
func TestReplaceFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if err := Replace(path, []byte("before")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(Spare(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("after")); err == nil {
		t.Error("it succeeds")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
		t.Errorf("%q %v", got, err)
	}
}
