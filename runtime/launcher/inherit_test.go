package launcher_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestInherit checks that a task of a restart in place finds what the ended task has written, and none of the files
// through which the agent talked with that task. The ended task is forgotten afterwards, which removes nothing.
func TestInherit(t *testing.T) {
	dir := room(t)
	r := newRig(t, dir, nil)
	r.run(0, script(`echo 7 > step; echo "$SYNAPSE_PROGRESS" > told; echo '{"step":3}' >> $SYNAPSE_PROGRESS; exit 3`))
	if e := r.gone(0); e.Code != 3 {
		t.Fatal(e)
	}
	next := prepareOf(1, script(`cat step; [ -s $SYNAPSE_PROGRESS ] && echo old; echo $SYNAPSE_GENERATION; pwd > told`))
	next.Inherits = id(0)
	for range 2 { // the Node repeats itself
		r.tell(next)
		take[*messages.TaskPrepared](r, 1)
	}
	r.tell(&messages.ForgetTask{Id: id(0)})
	old := filepath.Join(dir, "kept", id(0).Key().String())
	eventually(t, "the ended task is not forgotten", func() bool { _, err := os.Stat(old); return err == nil })
	start := startOf(1, next.Spec)
	start.Inherited = &messages.Inherited{From: id(0).Token, Generation: 4}
	r.tell(start)
	take[*messages.TaskStarted](r, 1)
	if e := r.gone(1); e.Code != 0 {
		t.Error(e)
	}
	if out := r.read(1, false); out != "7\n4\n" {
		t.Errorf("it reads %q", out)
	}
	if _, err := os.Stat(filepath.Join(old, "scratch")); err == nil {
		t.Error("the ended task still has a scratch directory")
	}
}

// TestInheritNothing checks that a task starts with empty directories if the ended task is not on this node any more.
func TestInheritNothing(t *testing.T) {
	r := newRig(t, room(t), nil)
	next := prepareOf(1, script("ls step; pwd"))
	next.Inherits = id(0)
	r.tell(next)
	take[*messages.TaskPrepared](r, 1)
	r.tell(startOf(1, next.Spec))
	take[*messages.TaskStarted](r, 1)
	if e := r.gone(1); e.Code != 0 {
		t.Error(e)
	}
}
