package launcher_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
)

// This file tests warnings of a task's end. runtime/conformance tests them with all drivers.

// TestWarned checks that the notice exists before the task gets the signal, once per end even if the warning is
// repeated, and once per idle time. A later end replaces the notice, and the notice can be removed. A task that does
// not run is not warned. The launcher writes through no link that the task put in the way.
func TestWarned(t *testing.T) {
	dir := room(t)
	r := newRig(t, dir, nil)
	spec := script(`trap 'sed -n 1p "$SYNAPSE_NOTICE"; echo told' USR1; echo ready; while :; do sleep 0.01; done`)
	spec.Warn = &messages.WarnSpec{Signal: int32(unix.SIGUSR1), AheadMs: 90_000}
	warn := func(number uint64, cause messages.Cause, of int64) {
		r.tell(&messages.WarnTask{
			Id: id(0), Number: number, Cause: cause, LeftMs: 90_000, Of: of, Signal: int32(unix.SIGUSR1),
		})
	}
	told := func(number uint64) {
		t.Helper()
		if m := take[*messages.TaskWarned](r, 0); m.Number != number {
			t.Errorf("%v, want %d", m, number)
		}
	}
	const limit, drained = messages.Cause_CAUSE_TIME_LIMIT, messages.Cause_CAUSE_DRAINED
	warn(1, limit, 5) // the task is unknown
	r.run(0, spec)
	take[*messages.TaskStarted](r, 0)
	r.await(0, "ready\n")
	scratch := filepath.Join(dir, "scratch", id(0).Key().String())
	victim := filepath.Join(t.TempDir(), "victim")
	for _, name := range []string{"synapse-notice", ".synapse-notice"} {
		if err := os.Symlink(victim, filepath.Join(scratch, name)); err != nil {
			t.Fatal(err)
		}
	}
	warn(2, limit, 5)
	told(2)
	r.await(0, "ready\nreason=time-limit\ntold\n")
	if _, err := os.Stat(victim); err == nil {
		t.Error("the notice was written where a link of the task led")
	}
	warn(3, limit, 5)
	told(3)
	warn(4, drained, 5)
	told(4)
	r.await(0, "ready\nreason=time-limit\ntold\nreason=drained\ntold\n")
	text, err := os.ReadFile(filepath.Join(scratch, "synapse-notice"))
	if err != nil || !strings.HasPrefix(string(text), "reason=drained\nleft_seconds=90\nends_unix_seconds=1") {
		t.Errorf("%q, %v", text, err)
	}
	idle := func(number uint64, of int64, after time.Duration) {
		r.tell(&messages.WarnTask{
			Id: id(0), Number: number, Of: of, IdleMs: after.Milliseconds(), Signal: int32(unix.SIGUSR1),
		})
		told(number)
	}
	idle(5, 1, time.Hour)
	known := "ready\nreason=time-limit\ntold\nreason=drained\ntold\naction=idle\ntold\n"
	r.await(0, known)
	idle(6, 2, 2*time.Hour) // a new leader, in the same idle time
	warn(7, messages.Cause_CAUSE_UNSPECIFIED, 0)
	told(7)
	idle(8, 3, time.Millisecond) // it has worked meanwhile
	r.await(0, known+"action=idle\ntold\n")
	if text, _ := os.ReadFile(filepath.Join(scratch, "synapse-notice")); string(text) !=
		"action=idle\nreason=idle\nidle_seconds=0\n" {
		t.Errorf("the notice is %q", text)
	}
	warn(9, messages.Cause_CAUSE_UNSPECIFIED, 0)
	told(9)
	if left, _ := filepath.Glob(filepath.Join(scratch, "*synapse-notice")); len(left) > 0 {
		t.Error(left)
	}
	r.tell(&messages.StopTask{Id: id(0), GraceMs: 60_000})
	r.gone(0)
}
