package file

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestReplace: a new version takes the place of a longer and of a shorter one as a whole, and nothing else is left
// beside it.
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

// TestReplaceTakesTheSpare: what was reserved is room for the next version, and no part of its content.
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

// TestReplaceFails: where the new version cannot be written the one before stays.
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
