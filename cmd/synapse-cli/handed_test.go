package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHandedToken checks that a token is written to a new file that only the user can read. An existing file is
// kept, and a failed creation leaves no file.
func TestHandedToken(t *testing.T) {
	a := newApp(strings.NewReader(""), &lines{}, &lines{}, func(string) (string, bool) { return "", false })
	path := filepath.Join(t.TempDir(), "token")
	fails := func() (string, error) { return "", errors.New("no scheduler answers") }
	if err := a.hand(path, fails); err == nil || !strings.Contains(err.Error(), "no scheduler answers") {
		t.Errorf("no token was made: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no token was made, and there is a file: %v", err)
	}
	made := func() (string, error) { return "secret", nil }
	if err := a.hand(path, made); err != nil {
		t.Fatal(err)
	}
	if err := a.hand(path, func() (string, error) { return "another", nil }); err == nil {
		t.Error("a file was written over")
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "secret\n" {
		t.Errorf("the file has %q: %v", text, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v: %v", info.Mode(), err)
	}
}
