package launcher_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
)

// TestKeptAndPruned: what a forgotten task wrote is kept, its scratch with it,
// until it is too old or too much; the oldest goes first.
func TestKeptAndPruned(t *testing.T) {
	dir := room(t)
	r := newRig(t, dir, func(o *launcher.Options) { o.KeepBytes = 55_000 })
	kept := func(rank int32) string { return filepath.Join(dir, "kept", launcher.KeyOf(id(rank)).String()) }
	there := func(path string) bool { _, err := os.Stat(path); return err == nil }
	for rank := range int32(3) {
		r.run(rank, script(`head -c 12000 /dev/zero; echo result > result`))
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
		r.tell(prepareOf(9, script("true"))) // any task that is forgotten has it looked at again
		r.tell(&messages.StopTask{Id: id(9)})
		r.tell(&messages.ForgetTask{Id: id(9)})
		return !there(kept(0))
	})
	if !there(kept(1)) || !there(kept(2)) {
		t.Error("more than was needed has gone")
	}
}

// TestHalfMade: what an agent left that died while it made a task's directory is no task.
func TestHalfMade(t *testing.T) {
	dir := room(t)
	home := filepath.Join(dir, "tasks", launcher.KeyOf(id(0)).String())
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
