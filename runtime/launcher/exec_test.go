package launcher_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file tests exec sessions over a broken wire and over a wire that is not read.

// execPipe carries an exec session. The test holds both ends.
type execPipe struct {
	in     chan *launcher.Incoming
	out    chan *launcher.Outgoing
	broken chan struct{}
}

var errBroken = errors.New("broken")

func (w *execPipe) Receive() (*launcher.Incoming, error) {
	select {
	case in := <-w.in:
		return in, nil
	case <-w.broken:
		return nil, errBroken
	}
}

func (w *execPipe) Send(out *launcher.Outgoing) error {
	copied := *out
	copied.Stdout = append([]byte(nil), out.Stdout...)
	select {
	case w.out <- &copied:
		return nil
	case <-w.broken:
		return errBroken
	}
}

// carried starts a task and returns a function that starts exec sessions in it.
func carried(t *testing.T) (*rig, func(script string) *execPipe) {
	wires := make(chan *execPipe, 1)
	r := newRig(t, room(t), func(o *launcher.Options) {
		o.Carry = func(_ context.Context, _ string, do func(launcher.Wire) error) error { return do(<-wires) }
	})
	r.run(0, script("exec sleep 1000"))
	take[*messages.TaskStarted](r, 0)
	return r, func(script string) *execPipe {
		w := &execPipe{make(chan *launcher.Incoming), make(chan *launcher.Outgoing), make(chan struct{})}
		wires <- w
		r.tell(&messages.ExecTask{Id: id(0), Job: "job-1", Epoch: 1, Session: "s"})
		w.in <- &launcher.Incoming{Command: []string{"/bin/sh", "-c", script}}
		if out := <-w.out; !out.Begun {
			t.Fatalf("%+v", out)
		}
		return w
	}
}

// end waits for the end of the process and returns its output.
func (w *execPipe) end(t *testing.T) (said string, last *launcher.Outgoing) {
	t.Helper()
	for limit := time.After(soon); ; {
		select {
		case out := <-w.out:
			if said += string(out.Stdout); out.Ended {
				return said, out
			}
		case <-limit:
			t.Fatalf("it has not ended, and said %q", said)
		}
	}
}

// processes returns the number of processes below the task's supervisor.
func (r *rig) processes() int {
	state, err := supervisor.ReadState(filepath.Join(r.dir, "tasks", "00000003.00000007-0"))
	if err != nil || state == nil {
		r.t.Fatal(state, err)
	}
	main, _ := supervisor.ReadProcess(state.PID)
	return len(supervisor.Descendants(main.Parent, supervisor.Processes()))
}

// TestExec checks that a session returns the output and the end of its process, and that a session in a task that does
// not run is refused.
func TestExec(t *testing.T) {
	r, begin := carried(t)
	w := begin("cat; exit 5")
	go func() {
		w.in <- &launcher.Incoming{Stdin: []byte("word")}
		w.in <- &launcher.Incoming{StdinEnds: true}
	}()
	if said, out := w.end(t); said != "word" || out.Code != 5 || out.Text != "" {
		t.Errorf("%q, %+v", said, out)
	}
	close(w.broken)
	r.tell(&messages.ExecTask{Id: id(1), Job: "job-1", Epoch: 1, Session: "s"})
	if no := take[*messages.ExecRefused](r, 1); no.Session != "s" || !strings.Contains(no.Text, "not on this node") {
		t.Errorf("%v", no)
	}
}

// TestExecOnASlowWire checks that all output of a process arrives, no matter how late it is read.
func TestExecOnASlowWire(t *testing.T) {
	_, begin := carried(t)
	w := begin("head -c 200000 /dev/zero; sleep 1000 & exit 3") // the background process keeps the streams open
	time.Sleep(time.Second)                                     // the process ends, and the time to read the rest passes
	if said, out := w.end(t); len(said) != 200000 || out.Code != 3 {
		t.Errorf("%d bytes, %+v", len(said), out)
	}
	close(w.broken)
}

// TestExecOnABrokenWire checks that a process ends when its wire breaks, whether it writes without end, waits for
// input, or does neither. The task continues.
func TestExecOnABrokenWire(t *testing.T) {
	r, begin := carried(t)
	for _, script := range []string{"exec yes", "exec cat", "exec sleep 1000"} {
		w := begin(script)
		if n := r.processes(); n != 2 {
			t.Errorf("%s: %d processes", script, n)
		}
		close(w.broken)
		eventually(t, script+" goes on", func() bool { return r.processes() == 1 })
	}
}
