//go:build linux

package tree_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/tree"
	"github.com/yi-json/synapse/test/able"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestMountsAreLeft checks that a mount below the tree stays with its content, and is reported. All other files are
// removed.
func TestMountsAreLeft(t *testing.T) {
	able.Need(t, able.Mounts)
	dir := t.TempDir()
	top, machine := filepath.Join(dir, "top"), filepath.Join(dir, "machine")
	place, file := filepath.Join(top, "a", "mount"), filepath.Join(top, "a", "file")
	must(t, os.MkdirAll(place, 0o700), os.Mkdir(machine, 0o700),
		os.WriteFile(filepath.Join(machine, "kept"), make([]byte, 1<<20), 0o600),
		os.WriteFile(file, nil, 0o600), os.WriteFile(filepath.Join(top, "a", "zzz"), nil, 0o600))
	must(t, unix.Mount(machine, place, "", unix.MS_BIND, "")) // on the same device
	must(t, unix.Mount(filepath.Join(machine, "kept"), file, "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		_, _ = unix.Unmount(place, unix.MNT_DETACH), unix.Unmount(file, unix.MNT_DETACH)
		must(t, tree.Remove(top))
	})
	used, err := tree.Measure(top, func(tree.Usage) bool { return true })
	must(t, err)
	err = tree.Remove(top)
	if err == nil || !strings.Contains(err.Error(), "is a mount point") {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(machine, "kept")); len(text) != 1<<20 {
		t.Errorf("what is mounted was removed: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(top, "a", "zzz")); err == nil {
		t.Error("what could be removed was not")
	}
	if used.Files != 4 || used.Bytes >= 1<<20 { // top, a, the file that is mounted on, zzz
		t.Errorf("%d files of %d bytes were counted", used.Files, used.Bytes)
	}
	if err := tree.Remove(place); err == nil || !strings.Contains(err.Error(), "is a mount point") {
		t.Errorf("a mount itself: %v", err)
	}
}
