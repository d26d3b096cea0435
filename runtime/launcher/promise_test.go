package launcher_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
)

// This file tests reserved disk space, and which tasks end in which order on a short disk.

// refusedForDisk prepares a task that must be refused, and returns the reason.
func (r *rig) refusedForDisk(t *testing.T, rank int32, spec *messages.JobSpec) string {
	t.Helper()
	r.tell(prepareOf(rank, spec))
	e := r.gone(rank)
	if e.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || e.Fault != messages.Fault_FAULT_UNKNOWN {
		t.Errorf("it is reported as %v", e)
	}
	return e.Detail
}

// ofDisk returns a script job with a disk limit.
func ofDisk(bytes int64, lines string) *messages.JobSpec {
	spec := script(lines)
	spec.DiskBytes = bytes
	return spec
}

// TestDiskPromised checks that the disk space of a job is reserved, or the job is refused with both numbers. The end of
// a task releases its reservation. A restart of the agent releases none.
func TestDiskPromised(t *testing.T) {
	dir := disk(t, "size=64m")
	r := newRig(t, dir, nil)
	if why := r.refusedForDisk(t, 0, ofDisk(1<<30, "true")); !strings.Contains(why, "resources.disk: ") ||
		!strings.Contains(why, "1024.0 MiB") {
		t.Error(why)
	}
	r.run(1, ofDisk(40<<20, untilGo))
	take[*messages.TaskStarted](r, 1)
	r.refusedForDisk(t, 2, ofDisk(30<<20, "true"))
	r.run(3, ofDisk(15<<20, "true"))
	r.gone(3)
	r.run(4, ofDisk(15<<20, "true"))
	r.gone(4)
	r.l.Close()
	o := options(dir)
	o.System = r.system
	l, err := launcher.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.l = l
	r.tell(&messages.AdoptTask{Id: id(1)})
	take[*messages.TaskStarted](r, 1)
	r.refusedForDisk(t, 5, ofDisk(30<<20, "true"))
	letGo(t, dir, 1)
	r.gone(1)
	r.run(6, ofDisk(30<<20, "true"))
	r.gone(6)
}

// TestDiskPromiseIsKept checks that a task with a disk limit continues on a short disk, no matter how much it grows
// within the limit. The task that ends has no limit.
func TestDiskPromiseIsKept(t *testing.T) {
	t.Parallel()
	dir := disk(t, "size=256m")
	r := newRig(t, dir, nil)
	r.run(0, ofDisk(30<<20, "touch ready; "+untilGo+"head -c 20000000 /dev/zero > f; sleep 5"))
	r.run(1, script("touch ready; "+untilGo+"head -c 8000000 /dev/zero > f; sleep 60"))
	r.ready(t, 0, 1)
	crowd(t, dir, 30<<20)
	letGo(t, dir, 0)
	letGo(t, dir, 1)
	r.endsForDisk(t, 1, "grown most")
	if e := r.gone(0); e.Code != 0 || e.Disk {
		t.Errorf("a task within its reservation is reported as %v", e)
	}
}

// TestDiskOfOutput checks that the output of a task counts towards its limit.
func TestDiskOfOutput(t *testing.T) {
	dir := disk(t, "size=64m")
	r := newRig(t, dir, nil)
	r.run(0, script("head -c 3000000 /dev/zero > f; "+untilGo))
	r.run(1, script("while :; do head -c 1000000 /dev/zero; done"))
	r.endsForDisk(t, 1, "output, and may keep")
	letGo(t, dir, 0)
	if e := r.gone(0); e.Code != 0 || e.Disk {
		t.Errorf("the other task is reported as %v", e)
	}
}

// TestDiskEvictsFirst checks that cached images are removed before any task ends for a full disk, and before a
// reservation is refused.
func TestDiskEvictsFirst(t *testing.T) {
	dir := disk(t, "size=256m")
	cache := filepath.Join(dir, "cache")
	fill := func(bytes int) {
		if err := os.WriteFile(cache, make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill(150 << 20)
	r := newRig(t, dir, func(o *launcher.Options) {
		o.Evict = func(enough func() bool) error {
			if enough() {
				return nil
			}
			if err := os.Remove(cache); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return nil
		}
	})
	r.run(0, ofDisk(200<<20, "true"))
	r.gone(0)
	fill(100 << 20)
	r.run(1, script("touch ready; "+untilGo+"head -c 10000000 /dev/zero > f; sleep 3; echo well"))
	r.ready(t, 1)
	crowd(t, dir, 16<<20)
	letGo(t, dir, 1)
	if e := r.gone(1); e.Code != 0 || e.Disk {
		t.Errorf("it is reported as %v", e)
	}
	if _, err := os.Stat(cache); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cached images are still there: %v", err)
	}
}
