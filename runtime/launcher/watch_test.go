package launcher_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the disk guard on separate file systems that are small enough to fill.

// disk mounts a separate file system for a launcher.
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

// writeOn is a script that writes files of 1 MiB until it is ended, also on a full disk.
const writeOn = `i=0; while :; do head -c 1048576 /dev/zero > f$i 2>/dev/null || sleep 0.1; i=$((i+1)); done`

// endsForDisk waits for a task that is ended for its disk usage with this text.
func (r *rig) endsForDisk(t *testing.T, rank int32, words string) {
	t.Helper()
	e := r.gone(rank)
	if !e.Disk || e.Code != 137 || e.ByItself || !strings.Contains(e.Detail, words) {
		t.Errorf("rank %d is reported as %v", rank, e)
	}
}

// TestDiskLimit checks that a task above its limit of bytes or files ends, and a task below it does not.
func TestDiskLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, disk(t, "size=512m,nr_inodes=20000"), nil)
	within := script("head -c 6000000 /dev/zero > f; head -c 6000000 /dev/zero > f; sleep 2; echo well")
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
	if took := time.Since(began); took > soon {
		t.Errorf("it took %v", took)
	}
	if e := r.gone(0); e.Code != 0 || e.Disk {
		t.Errorf("a task within its limit is reported as %v", e)
	}
}

// TestDiskDefault checks that tasks of a job without a request may keep a tenth of the free space.
func TestDiskDefault(t *testing.T) {
	r := newRig(t, disk(t, "size=100m"), nil)
	r.run(0, script(writeOn))
	r.endsForDisk(t, 0, "may keep 10.0 MiB")
}

// TestDiskUnlinked checks that a removed file that is still open or mapped counts for its task.
func TestDiskUnlinked(t *testing.T) {
	t.Parallel()
	r := newRig(t, disk(t, "size=300m"), nil)
	small := script("head -c 4000000 /dev/zero > f; sleep 4")
	hidden := script(`exec 3>f; rm f; while :; do head -c 4194304 /dev/zero >&3 2>/dev/null; sleep 0.1; done`)
	hidden.DiskBytes = 16 << 20
	r.run(0, small)
	r.run(1, hidden)
	r.endsForDisk(t, 1, "may keep 16.0 MiB")
	if e := r.gone(0); e.Code != 0 {
		t.Errorf("a task that kept little is reported as %v", e)
	}
}

// TestDiskUnlinkedFull checks the same if the task suddenly uses all space that others have left.
func TestDiskUnlinkedFull(t *testing.T) {
	t.Parallel()
	dir := disk(t, "size=256m")
	r := newRig(t, dir, nil)
	r.run(0, script("head -c 4000000 /dev/zero > f; touch ready; "+untilGo))
	r.run(1, script(`touch ready; `+untilGo+
		`exec 3>f; rm f; while :; do head -c 4194304 /dev/zero >&3 2>/dev/null || sleep 0.1; done`))
	r.ready(t, 0, 1)
	crowd(t, dir, 8<<20)
	letGo(t, dir, 1)
	r.endsForDisk(t, 1, "grown most")
	letGo(t, dir, 0)
	if e := r.gone(0); e.Code != 0 {
		t.Errorf("a task that kept little is reported as %v", e)
	}
}

// ready waits until the tasks have made a file of that name.
func (r *rig) ready(t *testing.T, ranks ...int32) {
	t.Helper()
	for _, rank := range ranks {
		path := filepath.Join(r.dir, "scratch", id(rank).Key().String(), "ready")
		eventually(t, "it does not begin", func() bool { _, err := os.Stat(path); return err == nil })
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(pace.Of(5 * lookEvery)) // after a walk, the current usage no longer counts as growth
}

// lookEvery is the interval of measurements of a task's tree.
const lookEvery = time.Second

// crowd fills a file system as something other than a task, and leaves this much free.
func crowd(t *testing.T, dir string, left int64) {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "foreign"))
	if err == nil {
		err = unix.Fallocate(int(file.Fd()), 0, 0, int64(s.Bavail)*s.Bsize-left)
	}
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
}

// TestDiskFull checks that on a nearly full disk the task ends that grew most after the disk became short, even if
// another task keeps more. Other tasks continue, and the next task runs. Meanwhile the node is not reported as broken.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := disk(t, "size=256m")
	r := newRig(t, dir, nil)
	r.run(0, script("head -c 24000000 /dev/zero > f; touch ready; "+untilGo+"echo more > g && echo well"))
	r.run(1, script("touch ready; "+untilGo+writeOn))
	r.run(2, script("touch ready; while [ ! -e ready ]; do sleep 0.05; done; head -c 2000000 /dev/zero > f; touch ready; "+
		untilGo))
	r.ready(t, 0, 1, 2)
	crowd(t, dir, 16<<20)
	time.Sleep(pace.Of(time.Second)) // the guard has measured
	if err := os.WriteFile(filepath.Join(dir, "scratch", id(2).Key().String(), "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	letGo(t, dir, 1)
	r.endsForDisk(t, 1, "grown most")
	for rank := int32(10); rank < 15; rank++ { // while the ended task's files still exist
		r.tell(prepareOf(rank, script("echo next > f")))
		r.tell(startOf(rank, script("echo next > f")))
	}
	for rank := int32(10); rank < 15; rank++ {
		if e := r.gone(rank); e.Code != 0 || e.Fault != messages.Fault_FAULT_UNSPECIFIED {
			t.Errorf("after it: %v", e)
		}
	}
	time.Sleep(4 * time.Second) // The guard continues to check the remaining tasks.
	for _, rank := range []int32{0, 2} {
		letGo(t, dir, rank)
		if e := r.gone(rank); e.Code != 0 || e.Disk {
			t.Errorf("rank %d, which grew little, is reported as %v", rank, e)
		}
	}
}

// TestDiskOfOthers checks that no task ends for a disk that others have nearly filled, if the tasks leave half of their
// share free.
func TestDiskOfOthers(t *testing.T) {
	t.Parallel()
	dir := disk(t, "size=64m")
	r := newRig(t, dir, nil)
	r.run(0, script("touch ready; "+untilGo+"head -c 1600000 /dev/zero > f; sleep 2"))
	r.ready(t, 0)
	crowd(t, dir, 3<<20)
	letGo(t, dir, 0)
	if e := r.gone(0); e.Code != 0 {
		t.Error(e)
	}
}

// TestDiskFilledByOthers checks a disk that others have filled to the last byte. No task ends. A task that cannot be
// prepared there is reported at once as the node's fault, every time. When there is space again, the next task runs.
func TestDiskFilledByOthers(t *testing.T) {
	dir := disk(t, "size=64m")
	r := newRig(t, dir, nil)
	r.run(0, script("head -c 300000 /dev/zero > f; "+untilGo))
	take[*messages.TaskStarted](r, 0)
	r.run(1, script("echo what is kept"))
	r.gone(1)
	r.tell(&messages.ForgetTask{Id: id(1)})
	r.run(2, script("exit 3")) // this task is not forgotten yet
	r.gone(2)
	foreign := filepath.Join(dir, "foreign")
	if err := os.WriteFile(foreign, make([]byte, 128<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	for rank := range int32(3) {
		began := time.Now()
		r.tell(prepareOf(10+rank, script("true")))
		e := r.gone(10 + rank)
		if e.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || e.Fault != messages.Fault_FAULT_MACHINE {
			t.Errorf("it is reported as %v", e)
		}
		if took := time.Since(began); took > pace.Of(8*time.Second) {
			t.Errorf("that took %v", took)
		}
	}
	kept, err := os.ReadDir(filepath.Join(dir, "kept"))
	exit, wrong := supervisor.ReadExit(filepath.Join(dir, "tasks", id(2).Key().String()))
	if err != nil || len(kept) > 0 || wrong != nil || exit == nil || exit.Code != 3 {
		t.Errorf("%d are kept (%v), and the exit record is %+v: %v", len(kept), err, exit, wrong)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	r.run(20, script("true"))
	if e := r.gone(20); e.Code != 0 || e.Kind != messages.ExitKind_EXIT_KIND_EXITED {
		t.Errorf("with room: %v", e)
	}
	letGo(t, dir, 0)
	if e := r.gone(0); e.Code != 0 {
		t.Errorf("a running task is reported as %v", e)
	}
}

// TestDiskFilledAgainAndAgain checks tasks that each take at once all space that others have left, one after the other.
// They end soon. Any task that is prepared and started meanwhile either runs or was never started. The node is never at
// fault.
func TestDiskFilledAgainAndAgain(t *testing.T) {
	dir := disk(t, "size=256m")
	r := newRig(t, dir, nil)
	for rank := int32(0); rank < 8; rank += 2 {
		r.run(rank, script(untilGo+`head -c 200000000 /dev/zero > g; echo full >&2; sleep 60`))
		take[*messages.TaskStarted](r, rank)
		crowd(t, dir, 16<<20)
		letGo(t, dir, rank)
		full(t, dir)
		began := time.Now()
		next := script("true")
		r.tell(prepareOf(rank+1, next))
		r.tell(startOf(rank+1, next))
		r.endsForDisk(t, rank, "the node's disk was nearly full")
		if took := time.Since(began); took > soon { // usually two seconds, and more on a busy host
			t.Errorf("it took %v", took)
		}
		r.tell(&messages.ForgetTask{Id: id(rank)}) // its files fill the disk until they are removed
		r.tell(prepareOf(rank+100, next))
		r.tell(startOf(rank+100, next))
		for _, beside := range []int32{rank + 1, rank + 100} {
			e := r.gone(beside)
			if e.Fault != messages.Fault_FAULT_UNSPECIFIED || e.Kind == messages.ExitKind_EXIT_KIND_EXITED && e.Code != 0 {
				t.Errorf("another task: %v", e)
			}
		}
		if err := os.Remove(filepath.Join(dir, "foreign")); err != nil {
			t.Fatal(err)
		}
	}
}

// full waits until almost no space of a file system is free, or at most for the time that the guard needs to make
// space.
func full(t *testing.T, dir string) {
	t.Helper()
	var s unix.Statfs_t
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := unix.Statfs(dir, &s); err != nil {
			t.Fatal(err)
		}
		if int64(s.Bavail)*s.Bsize < 1<<20 {
			return
		}
	}
}

// TestDiskAfterRestart checks that the next agent continues the guard with the task's original limit, although half of
// that is free now.
func TestDiskAfterRestart(t *testing.T) {
	dir := disk(t, "size=200m")
	r := newRig(t, dir, nil)
	spec := script(untilGo + writeOn)
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
	letGo(t, dir, 0)
	r.endsForDisk(t, 0, "may keep 20.0 MiB")
}

// TestDiskWatchIsCheap checks that a tree of very many files does not keep a processor busy. The task either rests, or
// writes and removes so much that it must be measured repeatedly.
func TestDiskWatchIsCheap(t *testing.T) {
	for name, lines := range map[string]string{
		"rests":  "sleep 60",
		"churns": "while :; do head -c 150000000 /dev/zero > churn; sleep 0.3; rm churn; sleep 0.3; done",
	} {
		t.Run(name, func(t *testing.T) {
			dir := disk(t, "size=512m")
			r := newRig(t, dir, nil)
			spec := script(untilGo + lines)
			spec.DiskBytes = 450 << 20 // more than its files use, so the task never exceeds it
			if name == "churns" {
				spec.DiskBytes = 200 << 20
			}
			r.run(0, spec)
			scratch := filepath.Join(dir, "scratch", id(0).Key().String())
			manyFiles(t, scratch, 100, 500)
			letGo(t, dir, 0)
			time.Sleep(2 * time.Second) // uses up the initial effort of urgent walks
			spent := func() time.Duration {
				var u unix.Rusage
				_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
				return time.Duration(u.Utime.Nano() + u.Stime.Nano())
			}
			before, began := spent(), time.Now()
			time.Sleep(3 * time.Second)
			share := float64(spent()-before) / float64(time.Since(began))
			t.Logf("50,000 files take %.1f%% of a processor", 100*share)
			if share > 0.5 {
				t.Errorf("the watch takes %.0f%% of a processor", 100*share)
			}
			r.tell(&messages.StopTask{Id: id(0), Signal: 9})
			if e := r.gone(0); e.Disk {
				t.Error(e)
			}
		})
	}
}

// manyFiles makes directories of empty files.
func manyFiles(t *testing.T, place string, folders, files int) {
	t.Helper()
	for i := range folders {
		if err := os.Mkdir(filepath.Join(place, fmt.Sprint(i)), 0o700); err != nil {
			t.Fatal(err)
		}
		for j := range files {
			if err := unix.Mknod(filepath.Join(place, fmt.Sprint(i), fmt.Sprint(j)), unix.S_IFREG, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}
