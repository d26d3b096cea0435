package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This file owns the tests of who may read a token.

// TestExposed: a token that its group or others may read or write is warned of; one of mode 0600, a pipe, and a file
// that is not there are not.
func TestExposed(t *testing.T) {
	dir := t.TempDir()
	for mode, want := range map[os.FileMode]bool{
		0o600: false, 0o400: false, 0o700: false, 0o644: true, 0o640: true, 0o604: true, 0o660: true, 0o620: true,
	} {
		path := filepath.Join(dir, mode.String())
		if err := os.WriteFile(path, []byte("t"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
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
