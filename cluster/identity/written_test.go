package identity

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/test/able"
)

// TestWrittenForTheOwner checks that a scheduler can read a file which root writes into its folder. Nothing outside of
// the folder is written or changes its owner, whatever links the scheduler's user has created.
func TestWrittenForTheOwner(t *testing.T) {
	able.Need(t, able.Root)
	const user = 4711
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Chown(dir, user, user); err != nil {
		t.Fatal(err)
	}
	f := &Folder{Dir: dir}
	owns := func(name string) {
		t.Helper()
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); s.Uid != user || s.Gid != user {
			t.Errorf("%s belongs to %d:%d", name, s.Uid, s.Gid)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "earlier"), 0o700); err != nil { // by a version that did not change owners
		t.Fatal(err)
	}
	for _, name := range []string{"made/one", "made/two", "earlier/one"} {
		if err := f.Write(name, []byte("x")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		owns(name)
	}
	owns("made")
	owns("earlier")
	if err := os.Symlink(outside, filepath.Join(dir, "trap")); err != nil {
		t.Fatal(err)
	}
	if err := f.Write("trap/one", []byte("x")); err == nil {
		t.Error("a link out of the folder is followed")
	}
	info, err := os.Stat(outside)
	entries, failed := os.ReadDir(outside)
	if err != nil || failed != nil || len(entries) > 0 || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("outside of it there are %v (%v, %v)", entries, err, failed)
	}
}
