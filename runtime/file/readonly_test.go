package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/file"
	"github.com/yi-json/synapse/test/able"
)

// TestReadOnlyIsNoTrust checks that a directory that others may write is refused even if it is mounted read-only,
// because it changes through other mounts. A file that is mounted alone, as by subPath, is accepted.
func TestReadOnlyIsNoTrust(t *testing.T) {
	able.Need(t, able.Root, able.Mounts)
	open, closed := filepath.Join(t.TempDir(), "open"), t.TempDir()
	there, alone := filepath.Join(closed, "there"), filepath.Join(closed, "policy")
	policy := filepath.Join(open, "policy")
	for _, err := range []error{
		os.Mkdir(open, 0o700), os.WriteFile(policy, []byte("first"), 0o600), os.Chmod(policy, 0o644),
		os.Chmod(open, 0o777), os.Mkdir(there, 0o755), os.WriteFile(alone, nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{open: there, policy: alone} {
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
		if err := unix.Mount("", to, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	}
	seen := filepath.Join(there, "policy")
	_, err := file.Trusted(seen, "change it")
	if err == nil || !strings.Contains(err.Error(), "other users can write to "+there+"; this read-only mount") ||
		!strings.Contains(err.Error(), "subPath") {
		t.Errorf("below a read-only mount of an open directory: %v", err)
	}
	if got, err := file.Trusted(alone, "change it"); err != nil || got != alone {
		t.Errorf("mounted alone: %s, %v", got, err)
	}
	if err := os.WriteFile(seen, nil, 0o644); err == nil {
		t.Error("the mount can be written to")
	}
	other := filepath.Join(open, "other") // as another user would
	if err := os.WriteFile(other, []byte("second"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, policy); err != nil {
		t.Fatal(err)
	}
	now, _ := os.ReadFile(seen)
	still, _ := os.ReadFile(alone)
	if string(now) != "second" || string(still) != "first" {
		t.Errorf("by the directory is read %q, of the file alone %q", now, still)
	}
}
