package secretseal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func made(t *testing.T) *Sealer {
	t.Helper()
	v := New(filepath.Join(t.TempDir(), FileName))
	if fresh, err := v.Make(); err != nil || !fresh {
		t.Fatalf("made: %v, %v", fresh, err)
	}
	return v
}

func sealed(t *testing.T, v *Sealer, about ...string) []byte {
	t.Helper()
	s, err := v.Seal([]byte("hunter2"), about...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSeals checks that a sealed value does not contain the text, differs each time, and opens only for its
// purpose. Every changed byte is detected.
func TestSeals(t *testing.T) {
	v := made(t)
	one, two := sealed(t, v, "alice", "token"), sealed(t, v, "alice", "token")
	if bytes.Contains(one, []byte("hunter2")) || bytes.Equal(one, two) {
		t.Errorf("sealed as %q and %q", one, two)
	}
	if text, err := v.Open(one, "alice", "token"); err != nil || string(text) != "hunter2" {
		t.Errorf("opened: %q, %v", text, err)
	}
	for _, about := range [][]string{{"bob", "token"}, {"alicetoken"}, {"alice", "token", ""}, {"ali", "cetoken"}, nil} {
		if text, err := v.Open(one, about...); err == nil {
			t.Errorf("opened as what is about %q: %q", about, text)
		}
	}
	for i := range one {
		changed := bytes.Clone(one)
		changed[i] ^= 1
		if _, err := v.Open(changed, "alice", "token"); err == nil {
			t.Errorf("opened with byte %d changed", i)
		}
		if _, err := v.Open(one[:i], "alice", "token"); err == nil {
			t.Errorf("opened with %d bytes", i)
		}
	}
}

// TestRotation checks that the first key in the file seals, that older keys open their values while they are in the
// file, and that a key of another cluster opens nothing.
func TestRotation(t *testing.T) {
	v := made(t)
	before := sealed(t, v)
	first, err := os.ReadFile(v.Path())
	if err != nil {
		t.Fatal(err)
	}
	second := NewKey() + "\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(v.Path(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# of this year\n" + second + string(first))
	after := sealed(t, v)
	for _, s := range [][]byte{before, after} {
		if text, err := v.Open(s); err != nil || string(text) != "hunter2" {
			t.Errorf("opened with both: %q, %v", text, err)
		}
	}
	write(second)
	if _, err := v.Open(before); !errors.Is(err, ErrNoKey) {
		t.Errorf("without the older key: %v", err)
	}
	if _, err := v.Open(after); err != nil {
		t.Errorf("the newer key did not seal: %v", err)
	}
}

// TestKeysRefused checks that a file that others can read, or that has no keys, is refused. Make keeps an existing
// file, and errors do not contain its lines.
func TestKeysRefused(t *testing.T) {
	v := made(t)
	if fresh, err := v.Make(); err != nil || fresh {
		t.Errorf("made again: %v, %v", fresh, err)
	}
	for text, want := range map[string]string{
		"": "has no key", "# none\n": "has no key", "aHVudGVyMg==\n": "line 1 is not a key", NewKey() + "\nx\n": "line 2",
		strings.Repeat(NewKey()+"\n", maxKeys+1): "more than",
	} {
		if err := os.WriteFile(v.Path(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := v.Check()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "aHVu") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := os.WriteFile(v.Path(), []byte(strings.Repeat(NewKey()+"\n", maxKeys)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.Check(); err != nil {
		t.Errorf("as many keys as there may be: %v", err)
	}
	if err := os.Chmod(v.Path(), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Seal(nil); err == nil || !strings.Contains(err.Error(), "chmod 0600") {
		t.Errorf("others may read it: %v", err)
	}
	if _, err := New(filepath.Join(t.TempDir(), "none")).Seal(nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}
