package launcher_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/tree"
)

// TestKeptAndPruned checks that the output and the scratch directory of a forgotten task are kept until they are too
// old or too large. The oldest are removed first. The files are far larger than their folders, which have size 0 if
// /tmp is in memory.
func TestKeptAndPruned(t *testing.T) {
	dir := room(t)
	r := newRig(t, dir, func(o *launcher.Options) { o.KeepBytes = 300_000 })
	kept := func(rank int32) string { return filepath.Join(dir, "kept", id(rank).Key().String()) }
	there := func(path string) bool { _, err := os.Stat(path); return err == nil }
	for rank := range int32(3) {
		r.run(rank, script(`head -c 120000 /dev/zero; echo result > result`))
		if e := r.gone(rank); e.Code != 0 {
			t.Fatal(e)
		}
		r.tell(&messages.ForgetTask{Id: id(rank)})
		eventually(t, "it is not kept", func() bool { return there(filepath.Join(kept(rank), "scratch", "result")) })
		past := time.Now().Add(time.Duration(rank-10) * time.Minute)
		if err := os.Chtimes(kept(rank), past, past); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the oldest is still there", func() bool {
		r.tell(prepareOf(9, script("true"))) // any forgotten task triggers the next check
		r.tell(&messages.StopTask{Id: id(9)})
		r.tell(&messages.ForgetTask{Id: id(9)})
		return !there(kept(0))
	})
	if !there(kept(1)) || !there(kept(2)) {
		t.Error("more than was needed has gone")
	}
}

// lingers is a driver whose Cleanup waits until the test permits it.
type lingers struct {
	launcher.Driver
	until chan struct{}
}

func (l lingers) Cleanup(t *launcher.Task) error {
	<-l.until
	return l.Driver.Cleanup(t)
}

// TestReadWhileForgotten checks that the output can be read and the tasks can be listed while the kernel removes the
// task's resources.
func TestReadWhileForgotten(t *testing.T) {
	until := make(chan struct{})
	r := newRig(t, room(t), func(o *launcher.Options) { o.Drivers[0] = lingers{o.Drivers[0], until} })
	let := sync.OnceFunc(func() { close(until) })
	t.Cleanup(let)
	r.run(0, script("echo done"))
	r.gone(0)
	r.tell(&messages.ForgetTask{Id: id(0)})
	r.tell(&messages.ForgetTask{Id: id(0)})
	if out := r.read(0, false); out != "done\n" {
		t.Errorf("it reads %q", out)
	}
	r.tell(&messages.ListTasks{})
	if list := take[*messages.TaskList](r, -1); len(list.Tasks) != 1 || list.Tasks[0].Exit == nil {
		t.Errorf("while it is removed the list has %v", list.Tasks)
	}
	let()
	eventually(t, "it is not forgotten", func() bool {
		r.tell(&messages.ListTasks{})
		return len(take[*messages.TaskList](r, -1).Tasks) == 0
	})
}

// TestKeptOfOthers checks that the owner who keeps most loses his own output, and 50 other owners lose nothing.
func TestKeptOfOthers(t *testing.T) {
	dir := room(t)
	r := newRig(t, dir, func(o *launcher.Options) { o.KeepBytes = 24 << 20 })
	place := func(rank int32) string { return filepath.Join(dir, "kept", id(rank).Key().String()) }
	there := func(rank int32) bool { _, err := os.Stat(place(rank)); return err == nil }
	run := func(rank int32, owner, lines string) {
		t.Helper()
		prepare := prepareOf(rank, script(lines))
		prepare.Owner = owner
		r.tell(prepare)
		take[*messages.TaskPrepared](r, rank)
		r.tell(startOf(rank, prepare.Spec))
		if e := r.gone(rank); e.Code != 0 {
			t.Fatal(e)
		}
		r.tell(&messages.ForgetTask{Id: id(rank)})
	}
	const others = 50
	for rank := range int32(others) {
		run(rank, fmt.Sprintf("user-%d", rank), "echo result > result")
	}
	for rank := int32(others); rank < others+3; rank++ {
		run(rank, "hoarder", "head -c 10000000 /dev/zero > large")
		eventually(t, "it is not kept", func() bool { return there(rank) || rank == others+2 })
	}
	eventually(t, "the one who keeps most keeps it all", func() bool { return !there(others) })
	if !there(others+1) || !there(others+2) {
		t.Error("more went than was too much")
	}
	for rank := range int32(others) {
		if !there(rank) {
			t.Fatalf("what user-%d left went for it", rank)
		}
	}
}

// TestHalfMade checks that a directory is no task if its agent died while it made the directory.
func TestHalfMade(t *testing.T) {
	dir := room(t)
	home := filepath.Join(dir, "tasks", id(0).Key().String())
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, dir, nil)
	r.tell(&messages.ListTasks{})
	if l := take[*messages.TaskList](r, -1); len(l.Tasks) > 0 {
		t.Error(l)
	}
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestDeepIsRemoved checks that 3,000 nested directories of a task are removed by an agent that can open fewer than a
// twentieth of them. (runtime/tree tests 120,000. Here, Landlock checks the whole path of each.)
func TestDeepIsRemoved(t *testing.T) {
	const nested = `for (1..3000) { mkdir "d" or die "$_: $!"; chdir "d" or die "$_: $!" }`
	perl, err := exec.LookPath("perl") // perl is in Debian's base; a shell's cd would take minutes
	if err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "launcher-") // a disk would take minutes for that many
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Remove(dir) })
	r := newRig(t, dir, func(o *launcher.Options) { o.KeepBytes, o.Log = 1, quiet{t: t} })
	r.run(0, &messages.JobSpec{Name: "test", Image: "host", Command: []string{perl, "-e", nested}})
	if e := r.gone(0); e.Code != 0 {
		t.Fatal(e)
	}
	fewDescriptors(t)
	r.tell(&messages.ForgetTask{Id: id(0)})
	eventually(t, "it is never removed", func() bool {
		left := 0
		for _, place := range []string{"tasks", "scratch", "kept", "gone"} {
			entries, err := os.ReadDir(filepath.Join(dir, place))
			if left += len(entries); err != nil {
				t.Fatal(err)
			}
		}
		return left == 0
	})
}

// fewDescriptors limits this process to a hundred more descriptors than it has open.
func fewDescriptors(t *testing.T) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	var was unix.Rlimit
	if err == nil {
		err = unix.Getrlimit(unix.RLIMIT_NOFILE, &was)
	}
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open)) + 100, Max: was.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) })
}
