package launcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/able"
	"github.com/yi-json/synapse/runtime/launcher"
)

// This file owns what the watch over the disk does, on disks of its own that are small enough to be filled.

// disk is a file system of its own for a launcher.
func disk(t *testing.T, options string) string {
	t.Helper()
	able.Need(t, able.Mounts)
	dir := room(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options+",mode=0711"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// write is a script that writes files of a MiB until it is ended, also on a full disk.
const writeOn = `i=0; while :; do head -c 1048576 /dev/zero > f$i 2>/dev/null || sleep 0.1; i=$((i+1)); done`

// endsForDisk waits for a task that is ended for the disk, in the words that it is told with.
func (r *rig) endsForDisk(t *testing.T, rank int32, words string) {
	t.Helper()
	e := r.gone(rank)
	if !e.Disk || e.Code != 137 || e.ByItself || !strings.Contains(e.Detail, words) {
		t.Errorf("rank %d is told as %v", rank, e)
	}
}

// TestDiskLimit: a task that keeps more than it asked for ends, by bytes and by files, and one that keeps less does not.
func TestDiskLimit(t *testing.T) {
	r := newRig(t, disk(t, "size=512m,nr_inodes=20000"), nil)
	within := script("head -c 6000000 /dev/zero > f; head -c 6000000 /dev/zero > f; sleep 4; echo well")
	within.DiskBytes = 8 << 20
	over := script(writeOn)
	over.DiskBytes = 8 << 20
	deep := script(`for i in $(seq 30); do mkdir -p a$i/b/c; cd a$i; done; ` + writeOn)
	deep.DiskBytes = 8 << 20
	files := script(`i=0; while :; do true > f$i; i=$((i+1)); done`)
	began := time.Now()
	for rank, spec := range []*messages.JobSpec{within, over, deep, files} {
		r.run(int32(rank), spec)
	}
	r.endsForDisk(t, 1, "may keep 8.0 MiB")
	r.endsForDisk(t, 2, "may keep 8.0 MiB")
	r.endsForDisk(t, 3, "files")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if e := r.gone(0); e.Code != 0 || e.Disk {
		t.Errorf("one within its limit is told as %v", e)
	}
}

// TestDiskDefault: where a job asks for nothing its tasks may keep a tenth of what is free.
func TestDiskDefault(t *testing.T) {
	r := newRig(t, disk(t, "size=100m"), nil)
	r.run(0, script(writeOn))
	r.endsForDisk(t, 0, "may keep 10.0 MiB")
}

// TestDiskUnlinked: a file that a task has removed and still writes to, or has in its memory, is on its own account.
func TestDiskUnlinked(t *testing.T) {
	r := newRig(t, disk(t, "size=300m"), nil)
	small := script("head -c 4000000 /dev/zero > f; sleep 4")
	hidden := script(`exec 3>f; rm f; while :; do head -c 4194304 /dev/zero >&3 2>/dev/null; sleep 0.1; done`)
	hidden.DiskBytes = 16 << 20
	r.run(0, small)
	r.run(1, hidden)
	r.endsForDisk(t, 1, "may keep 16.0 MiB")
	if e := r.gone(0); e.Code != 0 {
		t.Errorf("one that kept little is told as %v", e)
	}
}

// TestDiskUnlinkedFull: so it is when it has filled the disk at once.
func TestDiskUnlinkedFull(t *testing.T) {
	r := newRig(t, disk(t, "size=64m"), nil)
	small := script("head -c 4000000 /dev/zero > f; sleep 4")
	hidden := script(`exec 3>f; rm f; sleep 0.5; while :; do head -c 4194304 /dev/zero >&3 2>/dev/null || sleep 0.1; done`)
	small.DiskBytes, hidden.DiskBytes = 1<<30, 1<<30
	r.run(0, small)
	r.run(1, hidden)
	r.endsForDisk(t, 1, "kept most")
	if e := r.gone(0); e.Code != 0 {
		t.Errorf("one that kept little is told as %v", e)
	}
}

// TestDiskFull: on a disk that is nearly full the task ends that keeps most, others go on, and the next one runs; the
// machine is not said to be broken meanwhile.
func TestDiskFull(t *testing.T) {
	dir := disk(t, "size=64m")
	r := newRig(t, dir, nil)
	small := script("head -c 4000000 /dev/zero > f; sleep 6; echo more > g && echo well")
	small.DiskBytes = 1 << 30
	greedy := script(writeOn)
	greedy.DiskBytes = 1 << 30
	r.run(0, small)
	r.run(1, greedy)
	r.run(2, script("sleep 6"))
	r.endsForDisk(t, 1, "kept most")
	for rank := int32(10); rank < 15; rank++ { // while its files are still there
		r.tell(prepareOf(rank, script("echo next > f")))
		r.tell(startOf(rank, script("echo next > f")))
	}
	for rank := int32(10); rank < 15; rank++ {
		if e := r.gone(rank); e.Code != 0 || e.Fault != messages.Fault_FAULT_UNSPECIFIED {
			t.Errorf("after it: %v", e)
		}
	}
	for _, rank := range []int32{0, 2} {
		if e := r.gone(rank); e.Code != 0 || e.Disk {
			t.Errorf("rank %d, which kept little, is told as %v", rank, e)
		}
	}
}

// TestDiskOfOthers: where others than tasks have filled the disk, no task ends for it.
func TestDiskOfOthers(t *testing.T) {
	dir := disk(t, "size=64m")
	if err := os.WriteFile(filepath.Join(dir, "foreign"), make([]byte, 62<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, dir, nil)
	r.run(0, script("echo something > f; sleep 2"))
	if e := r.gone(0); e.Code != 0 {
		t.Error(e)
	}
}

// TestDiskAfterRestart: the next agent goes on with the watch, and with what the task might keep when it started, though
// half of that is free by now.
func TestDiskAfterRestart(t *testing.T) {
	dir := disk(t, "size=200m")
	r := newRig(t, dir, nil)
	spec := script("while [ ! -e go ]; do sleep 0.05; done; " + writeOn)
	r.run(0, spec)
	take[*messages.TaskStarted](r, 0)
	r.l.Close()
	if err := os.WriteFile(filepath.Join(dir, "foreign"), make([]byte, 100<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(dir)
	o.System = r.system
	l, err := launcher.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.l = l
	r.tell(&messages.AdoptTask{Id: id(0)})
	if err := os.WriteFile(filepath.Join(dir, "scratch", launcher.KeyOf(id(0)).String(), "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.endsForDisk(t, 0, "may keep 20.0 MiB")
}

// TestDiskWatchIsCheap: a tree of very many files does not keep a processor busy.
func TestDiskWatchIsCheap(t *testing.T) {
	dir := disk(t, "size=512m")
	r := newRig(t, dir, nil)
	spec := script("sleep 8")
	spec.DiskBytes = 400 << 20
	r.run(0, spec)
	scratch := filepath.Join(dir, "scratch", launcher.KeyOf(id(0)).String())
	for i := range 100 {
		if err := os.Mkdir(filepath.Join(scratch, fmt.Sprint(i)), 0o700); err != nil {
			t.Fatal(err)
		}
		for j := range 1000 {
			if err := unix.Mknod(filepath.Join(scratch, fmt.Sprint(i), fmt.Sprint(j)), unix.S_IFREG, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	spent := func() time.Duration {
		var u unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, began := spent(), time.Now()
	time.Sleep(4 * time.Second)
	share := float64(spent()-before) / float64(time.Since(began))
	t.Logf("100,000 files take %.1f%% of a processor", 100*share)
	if share > 0.3 {
		t.Errorf("the watch takes %.0f%% of a processor", 100*share)
	}
	if e := r.gone(0); e.Code != 0 {
		t.Error(e)
	}
}
