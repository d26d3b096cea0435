package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/file"
	"github.com/yi-json/synapse/runtime/launcher"
)

// This file tests acknowledgements on the socket of the task, with real processes.

// sendLine is the main function of a process in a task. It sends a line to the socket of the task, or to the socket in
// the given folder, and prints the answer.
func sendLine(line string, folder []string) {
	dir := filepath.Dir(os.Getenv("SYNAPSE_EXEC"))
	if len(folder) > 0 {
		dir = folder[0]
	}
	opened, err := os.Open(dir) // the path of the socket may be too long
	if err == nil {
		var conn net.Conn
		if conn, err = net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/socket", opened.Fd())); err == nil {
			_, err = fmt.Fprintln(conn, line)
			_, _ = io.Copy(os.Stdout, conn)
		}
	}
	if err != nil {
		fmt.Println(err)
	}
	os.Exit(0)
}

// withSockets gives the tasks sockets, and this test binary in place of synapse-exec. The tasks' user cannot reach the
// folder of the test binary, so the tasks get a copy.
func withSockets(t *testing.T, dir string) func(*launcher.Options) {
	program := filepath.Join(dir, "helper")
	text, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = file.Write(program, text, false)
	}
	if err = errors.Join(err, os.Chmod(program, 0o755)); err != nil {
		t.Fatal(err)
	}
	return func(o *launcher.Options) {
		o.Helper = program
		o.Reach = func(context.Context, launcher.ExecRequest, func(launcher.RemoteExec) error) error {
			return errors.New("not in this test")
		}
	}
}

// onSocket returns a job whose tasks run lines for each request, and acknowledge step 13 when the test lets them go.
func onSocket(lines string) *messages.JobSpec {
	spec := script("line() { \"$SYNAPSE_EXEC\" line \"$@\"; }\ntrap '. \"$SYNAPSE_NOTICE\"\n" + lines + "' USR1\n" +
		"echo ready; while :; do sleep 0.01; [ ! -e go ] || { rm go; line \"ack $request 13\"; }; done")
	spec.Checkpoint = &messages.CheckpointSpec{Signal: int32(unix.SIGUSR1), Ack: messages.SaveAck_SAVE_ACK_SOCKET}
	return spec
}

// TestSavedOnSocket checks that a line on the task's socket acknowledges a request, and that the acknowledgement
// outlives the agent. Bad lines get an error. A line about another request is only counted, and the acknowledgement
// file has no effect.
func TestSavedOnSocket(t *testing.T) {
	dir := room(t)
	sockets := withSockets(t, dir)
	r := newRig(t, dir, sockets)
	r.run(0, onSocket(`echo "$request 99" >"$SYNAPSE_CHECKPOINT_DIR/ack.0"
		line "ack $request"; line "ack x 1"; line "ack $request -1"
		line "$(printf "ack %070d" 0)"
		line "ack $((request - 1)) 11"; line "ack $request 12"; echo over`))
	take[*messages.TaskStarted](r, 0)
	r.await(0, "ready\n")
	saves(r, 1, 41)
	const said = `ready
error: "ack 41" is not an acknowledgement: write ` + "`ack REQUEST STEP`" + `
error: "x" is not a request: use the number in $SYNAPSE_NOTICE
error: "-1" is not a step: use a whole number from 0 to 9007199254740992
error: the line is longer than 64 bytes
error: request 40 is not open; the open request is 41
ok
over
`
	r.await(0, said)
	if m := take[*messages.TaskSaved](r, 0); m.Saved.Request != 40 {
		t.Errorf("another request: %v", m)
	}
	wants := func(steps ...int64) {
		t.Helper()
		if m := take[*messages.TaskSaved](r, 0); m.Saved.Request != 41 || !slices.Equal(m.Saved.Steps, steps) {
			t.Errorf("%v", m)
		}
	}
	wants(12)
	r.l.Close()
	r = newRig(t, dir, sockets)
	r.tell(&messages.AdoptTask{Id: id(0)})
	take[*messages.TaskStarted](r, 0)
	letGo(t, dir, 0) // the new agent does not know the request yet
	r.await(0, said+"ok\n")
	saves(r, 2, 41)
	wants(12, 13)
	r.tell(&messages.WarnTask{Id: id(0), Number: 3})
	take[*messages.TaskWarned](r, 0)
	r.tell(&messages.StopTask{Id: id(0), Signal: int32(unix.SIGKILL)})
	r.gone(0)
}

// TestSavedOnSocketOfOther checks that a task cannot acknowledge on the socket of another rank, and that a job without
// ack: socket cannot acknowledge there. A line after the end of a request gets an error.
func TestSavedOnSocketOfOther(t *testing.T) {
	dir := room(t)
	r := newRig(t, dir, withSockets(t, dir))
	other := filepath.Join(dir, "scratch", id(0).Key().String(), ".synapse")
	r.run(0, onSocket(":"))
	r.run(1, onSocket(`line "ack $request 8" `+other+`; line "ack $request 8"; while [ -e "$SYNAPSE_NOTICE" ]; do sleep 0.01
		done; line "ack $request 9"`))
	take[*messages.TaskStarted](r, 0)
	take[*messages.TaskStarted](r, 1)
	r.await(0, "ready\n")
	r.await(1, "ready\n")
	saves(r, 1, 41)
	r.tell(&messages.WarnTask{Id: id(1), Number: 1, Request: 41, Signal: int32(unix.SIGUSR1)})
	said := "ready\nerror: the socket belongs to another task\nok\n"
	r.await(1, said)
	if m := take[*messages.TaskSaved](r, 1); !slices.Equal(m.Saved.Steps, []int64{8}) {
		t.Errorf("%v", m)
	}
	r.tell(&messages.WarnTask{Id: id(1), Number: 2})
	r.await(1, said+"error: no request to save is open\n")
	for rank := range int32(2) {
		r.tell(&messages.StopTask{Id: id(rank), Signal: int32(unix.SIGKILL)})
		r.gone(rank)
	}
	for _, m := range r.got {
		if saved, is := m.(*messages.TaskSaved); is {
			t.Errorf("it also said %v", saved)
		}
	}

	spec := onSocket(`line "ack $request 8"`)
	spec.Checkpoint.Ack = messages.SaveAck_SAVE_ACK_FILE
	r.run(2, spec)
	take[*messages.TaskStarted](r, 2)
	r.await(2, "ready\n")
	r.tell(&messages.WarnTask{Id: id(2), Number: 1, Request: 41, Signal: int32(unix.SIGUSR1)})
	r.await(2, "ready\nerror: the job does not acknowledge by its socket: set `ack: socket` in `checkpoint`\n")
	r.tell(&messages.StopTask{Id: id(2), Signal: int32(unix.SIGKILL)})
	r.gone(2)
}

// TestNoSocket checks that the reason is reported if the node gives the task no socket.
func TestNoSocket(t *testing.T) {
	r := newRig(t, room(t), nil)
	r.run(0, onSocket(":"))
	take[*messages.TaskStarted](r, 0)
	r.await(0, "ready\n")
	r.tell(&messages.WarnTask{Id: id(0), Number: 1, Request: 5, Signal: int32(unix.SIGUSR1)})
	const want = "the task could not be asked: the task has no socket on this node"
	if m := take[*messages.TaskSaved](r, 0); !strings.HasPrefix(m.Saved.Problem, want) {
		t.Errorf("%v", m)
	}
	r.tell(&messages.StopTask{Id: id(0), Signal: int32(unix.SIGKILL)})
	r.gone(0)
}
