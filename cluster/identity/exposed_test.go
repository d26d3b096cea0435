package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This file owns the tests of file modes of tokens and keys.

// TestExposed checks that a token file which its group or others can read or write causes a warning. A file of mode
// 0600, a pipe and a missing file cause none.
func TestExposed(t *testing.T) {
	dir := t.TempDir()
	for mode, want := range map[os.FileMode]bool{
		0o600: false, 0o400: false, 0o700: false, 0o644: true, 0o640: true, 0o604: true, 0o660: true, 0o620: true,
	} {
		path := filepath.Join(dir, mode.String())
		if err := os.WriteFile(path, []byte("t"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // independent of the umask
			t.Fatal(err)
		}
		warning := Exposed(path)
		if (warning != "") != want || want && !strings.Contains(warning, "chmod 0600 "+path) {
			t.Errorf("%s: %q", mode, warning)
		}
	}
	if warning := Exposed(filepath.Join(dir, "none")) + Exposed(dir) + Exposed(os.DevNull); warning != "" {
		t.Errorf("no file: %q", warning)
	}
}

// TestPrivateFiles checks that a key or secret file is accepted only if no mode bit gives others access. A secret must
// not exceed its maximum length.
func TestPrivateFiles(t *testing.T) {
	dir := t.TempDir()
	r := newRealm(t, "c-a")
	folder := &Folder{Dir: filepath.Join(dir, "folder"), Roots: r.root.Chain, Pair: r.pair(RoleNode, "n1")}
	if err := folder.Create(); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(folder.Dir, keyFile)
	for bit := range 9 {
		mode := os.FileMode(1) << bit
		if err := os.Chmod(key, 0o600|mode); err != nil {
			t.Fatal(err)
		}
		open := mode&0o077 != 0
		_, secret := ReadPrivate(key, 1<<10)
		_, whole := OpenFolder(folder.Dir)
		if (secret != nil) != open || (whole != nil) != open || (Exposed(key) != "") != open {
			t.Errorf("mode %v: %v, %v, %q", 0o600|mode, secret, whole, Exposed(key))
		}
	}
	path := filepath.Join(dir, "secret")
	for size := range 4 {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := ReadPrivate(path, 2); (err == nil) != (size <= 2) || err == nil && len(text) != size {
			t.Errorf("%d bytes where 2 are allowed: %d, %v", size, len(text), err)
		}
	}
	for _, wrong := range []string{dir, filepath.Join(dir, "none")} {
		if text, err := ReadPrivate(wrong, 2); err == nil {
			t.Errorf("%s is read as %q", wrong, text)
		}
	}
}
