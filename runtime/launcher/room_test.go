package launcher_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
)

// TestDiskLeftByOthers checks every amount of disk space that others leave, block by block. Either a task is prepared,
// or the node is reported as at fault. If no fault were named, the leader would blame the job and delay its next try.
func TestDiskLeftByOthers(t *testing.T) {
	prepared := 0
	for left := range int64(16) {
		dir := disk(t, "size=512k")
		r := newRig(t, dir, nil)
		leave(t, dir, left)
		r.tell(prepareOf(0, script("true")))
		switch m := take[interface{ GetId() *messages.TaskId }](r, 0).(type) {
		case *messages.TaskPrepared:
			prepared++
		case *messages.TaskGone:
			e := m.Exit
			if e.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || e.Fault != messages.Fault_FAULT_MACHINE {
				t.Errorf("with %d blocks left it is reported as %v", left, e)
			}
		}
	}
	if prepared == 0 || prepared == 16 {
		t.Errorf("%d tasks of 16 were prepared, so that it was not tried about the least room", prepared)
	}
}

// leave fills a file system except for some blocks.
func leave(t *testing.T, dir string, blocks int64) {
	t.Helper()
	foreign := filepath.Join(dir, "foreign")
	if err := os.WriteFile(foreign, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	var s unix.Statfs_t
	filled, err := os.Stat(foreign)
	if err == nil {
		err = unix.Statfs(dir, &s)
	}
	if err == nil {
		err = os.Truncate(foreign, filled.Size()-blocks*s.Bsize)
	}
	if err != nil {
		t.Fatal(err)
	}
}
