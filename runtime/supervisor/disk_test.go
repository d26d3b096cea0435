package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/test/able"
)

// TestNoRoom checks that a failure for lack of space on a full disk blames nobody, and that the same error on a disk
// with free space blames the node.
func TestNoRoom(t *testing.T) {
	able.Need(t, able.Mounts)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	t.Chdir(dir)
	lacking := fmt.Errorf("a record: %w", &os.PathError{Op: "write", Path: "p", Err: unix.ENOSPC})
	if e := setUpFailed(lacking); e.Kind != LaunchFailed || e.Fault != fault.Machine {
		t.Errorf("with room: %+v", e)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if e := setUpFailed(lacking); e.Kind != NeverStarted || e.Fault != fault.Unknown || e.Code != 0 {
		t.Errorf("without room: %+v", e)
	}
	if e := setUpFailed(unix.EIO); e.Kind != LaunchFailed || e.Fault != fault.Machine {
		t.Errorf("another error: %+v", e)
	}
}
