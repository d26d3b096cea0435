package launcher_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
)

// This file tests requests to save a checkpoint, from the notice to the acknowledgement.

// saves asks a task to save, and waits until it has the notice.
func saves(r *rig, number, request uint64) {
	r.tell(&messages.WarnTask{
		Id: id(0), Number: number, Cause: messages.Cause_CAUSE_PREEMPTED, LeftMs: 60_000, Signal: int32(unix.SIGUSR1),
		Request: request, Subject: "job-1",
	})
	take[*messages.TaskWarned](r, 0)
}

// TestSaved checks that a task finds the request in its notice, that its acknowledgement arrives, and that it arrives
// again when the request is repeated, as after a restart of the agent. A line about another request counts for nothing.
// A withdrawn request removes the notice. The files of the launcher are removed with the task.
func TestSaved(t *testing.T) {
	dir := room(t)
	r := newRig(t, dir, nil)
	spec := script(`trap '. "$SYNAPSE_NOTICE"; echo "$action $reason $subject"
		echo "$((request - 1)) 11" >"$SYNAPSE_CHECKPOINT_DIR/ack.0"
		echo "$request 12" >>"$SYNAPSE_CHECKPOINT_DIR/ack.0"' USR1; echo ready; while :; do sleep 0.01; done`)
	spec.Checkpoint = &messages.CheckpointSpec{Signal: int32(unix.SIGUSR1)}
	r.run(0, spec)
	take[*messages.TaskStarted](r, 0)
	r.await(0, "ready\n")
	saves(r, 1, 41)
	r.await(0, "ready\ncheckpoint preempted job-1\n")
	wants := func() {
		t.Helper()
		m := take[*messages.TaskSaved](r, 0)
		if m.Saved.Request != 41 || !slices.Equal(m.Saved.Steps, []int64{12}) || m.Saved.Problem != "" {
			t.Errorf("%v", m)
		}
	}
	wants()
	saves(r, 2, 41)
	wants()
	scratch := filepath.Join(dir, "scratch", id(0).Key().String())
	text, err := os.ReadFile(filepath.Join(scratch, "synapse-notice"))
	if err != nil || !strings.HasPrefix(string(text), "action=checkpoint\nrequest=41\nreason=preempted\nsubject=job-1\n") {
		t.Errorf("%q, %v", text, err)
	}
	r.tell(&messages.WarnTask{Id: id(0), Number: 3})
	take[*messages.TaskWarned](r, 0)
	if _, err := os.Stat(filepath.Join(scratch, "synapse-notice")); err == nil {
		t.Error("the notice is still there")
	}
	r.tell(&messages.StopTask{Id: id(0), Signal: int32(unix.SIGKILL)})
	r.gone(0)
}

// TestSavedBeforeExit checks that the acknowledgement of a task that exits at once arrives before its exit, even if its
// line has no line break.
func TestSavedBeforeExit(t *testing.T) {
	r := newRig(t, room(t), nil)
	spec := script(`trap '. "$SYNAPSE_NOTICE"; printf "%s 7" "$request" >"$SYNAPSE_CHECKPOINT_DIR/ack.0"; exit 85' USR1
		echo ready; while :; do sleep 0.01; done`)
	spec.Checkpoint = &messages.CheckpointSpec{Signal: int32(unix.SIGUSR1), Ack: messages.SaveAck_SAVE_ACK_EXIT}
	r.run(0, spec)
	take[*messages.TaskStarted](r, 0)
	r.await(0, "ready\n")
	saves(r, 1, 5)
	if m := take[*messages.TaskSaved](r, 0); !slices.Equal(m.Saved.Steps, []int64{7}) {
		t.Errorf("%v", m)
	}
	if m := take[*messages.TaskGone](r, 0); m.Exit.Code != messages.ExitSaved {
		t.Errorf("%v", m)
	}
}

// TestSavedThroughLink checks that the launcher follows no link, and reports the reason.
func TestSavedThroughLink(t *testing.T) {
	r := newRig(t, room(t), nil)
	spec := script(`trap 'ln -sf /etc/passwd "$SYNAPSE_CHECKPOINT_DIR/ack.0"' USR1; echo ready; while :; do sleep 0.01
		done`)
	spec.Checkpoint = &messages.CheckpointSpec{Signal: int32(unix.SIGUSR1)}
	r.run(0, spec)
	take[*messages.TaskStarted](r, 0)
	r.await(0, "ready\n")
	saves(r, 1, 5)
	if m := take[*messages.TaskSaved](r, 0); m.Saved.Problem == "" || len(m.Saved.Steps) > 0 {
		t.Errorf("%v", m)
	}
	r.tell(&messages.StopTask{Id: id(0), Signal: int32(unix.SIGKILL)})
	r.gone(0)
}

// TestNotAsked checks that the reason is reported if the notice cannot be written, as on a full disk.
func TestNotAsked(t *testing.T) {
	dir := room(t)
	r := newRig(t, dir, nil)
	spec := script(`echo ready; while :; do sleep 0.01; done`)
	spec.Checkpoint = &messages.CheckpointSpec{}
	r.run(0, spec)
	take[*messages.TaskStarted](r, 0)
	r.await(0, "ready\n")
	blocked := filepath.Join(dir, "scratch", id(0).Key().String(), "synapse-notice", "x")
	if err := os.MkdirAll(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	r.tell(&messages.WarnTask{Id: id(0), Number: 1, Cause: messages.Cause_CAUSE_PREEMPTED, Request: 5})
	if m := take[*messages.TaskSaved](r, 0); !strings.HasPrefix(m.Saved.Problem, "the task could not be asked: ") ||
		m.Saved.Request != 5 {
		t.Errorf("%v", m)
	}
	r.tell(&messages.StopTask{Id: id(0), Signal: int32(unix.SIGKILL)})
	r.gone(0)
}
