//go:build linux

// This file tests exec sessions through a node's agent, and calls between tasks. Each driver supports them or reports
// that it does not. Killed processes leave nothing behind.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// helper builds cmd/synapse-exec next to cmd/carapace, once for all tests, or uses one that was built before.
var helper = sync.OnceValues(func() (string, error) {
	beside, err := built()
	binary := filepath.Join(filepath.Dir(beside), "synapse-exec")
	if err != nil || builtIn == "" {
		return binary, err
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "github.com/yi-json/synapse/cmd/synapse-exec")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cmd/synapse-exec: %w\n%s", err, text)
	}
	return binary, nil
})

// peopled is a node whose tasks have synapse-exec. The test provides the wires of exec sessions and answers the calls
// between tasks.
type peopled struct {
	*stack
	wires chan *execPipe
	calls chan launcher.ExecRequest
}

func people(t *testing.T, s *stack) *peopled {
	t.Helper()
	binary, err := helper()
	if err != nil {
		t.Fatal(err)
	}
	m := &peopled{s, make(chan *execPipe, 1), make(chan launcher.ExecRequest, 16)}
	s.restart(t, func() {
		s.options.Helper = binary
		s.options.Carry = func(_ context.Context, _ string, do func(launcher.Wire) error) error { return do(<-m.wires) }
		s.options.Reach = func(_ context.Context, call launcher.ExecRequest, do func(launcher.RemoteExec) error) error {
			m.calls <- call
			return do(&answering{[]*launcher.Outgoing{{Begun: true}, {Stdout: []byte("there\n")}, {Ended: true, Code: 7}}})
		}
	})
	return m
}

// answering imitates another task that always gives the same answer.
type answering struct{ says []*launcher.Outgoing }

func (a *answering) Send(*launcher.Incoming) error { return nil }
func (a *answering) Receive() (*launcher.Outgoing, error) {
	out := a.says[0]
	a.says = a.says[1:]
	return out, nil
}

// execPipe carries one exec session. The test holds both ends.
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
	copied.Stdout, copied.Stderr = append([]byte(nil), out.Stdout...), append([]byte(nil), out.Stderr...)
	select {
	case w.out <- &copied:
		return nil
	case <-w.broken:
		return errBroken
	}
}

// ask starts an exec session in a task.
func (m *peopled) ask(p *staged, what *launcher.Incoming) *execPipe {
	w := &execPipe{make(chan *launcher.Incoming, 1), make(chan *launcher.Outgoing), make(chan struct{})}
	m.wires <- w
	m.launcher.Tell(&messages.ExecTask{Id: p.id, Job: "job", Epoch: 1, Session: "session"}, m.pid)
	w.in <- what
	return w
}

// shelled starts an exec session with a script.
func (m *peopled) shelled(p *staged, script string) *execPipe {
	return m.ask(p, &launcher.Incoming{Command: []string{"/bin/sh", "-c", script}})
}

// until reads output until over returns true, and returns all of it.
func (w *execPipe) until(t *testing.T, over func(said string, out *launcher.Outgoing) bool) (said string,
	last *launcher.Outgoing) {
	t.Helper()
	for late := time.After(2 * limit); ; {
		select {
		case last = <-w.out:
			said += string(last.Stdout) + string(last.Stderr)
			if last.Ended || over(said, last) {
				return said, last
			}
		case <-late:
			t.Fatalf("nothing comes after %q", said)
		}
	}
}

// end returns how the session ended, and its output.
func (w *execPipe) end(t *testing.T) (said string, last *launcher.Outgoing) {
	t.Helper()
	defer close(w.broken)
	return w.until(t, func(string, *launcher.Outgoing) bool { return false })
}

// began waits for the first line of output.
func (w *execPipe) began(t *testing.T) {
	t.Helper()
	if said, last := w.until(t, func(said string, _ *launcher.Outgoing) bool {
		return strings.Contains(said, "\n")
	}); last.Ended {
		t.Fatalf("it ended with %d: %s%s", last.Code, said, last.Text)
	}
}

// TestExecOfAMachine checks each driver. It runs an exec session, or reports by its name that it does not. The task
// sees synapse-exec and can call others with it, or has no such program. The task itself is never affected.
func TestExecOfAMachine(t *testing.T) {
	onEveryDriver(t, func(t *testing.T, s *stack) {
		m := people(t, s)
		p := m.begun(t, `trap 'exit 33' TERM; echo "exec $SYNAPSE_EXEC"; cat /proc/self/cgroup; echo ready
			while :; do sleep 0.01; done`)
		said, last := m.shelled(p, "echo inside $SYNAPSE_RANK; exit 5").end(t)
		lacks, driver := m.Lacks(ExecSessions), m.options.Drivers[0].Name()
		helps, shows := m.options.Drivers[0].(interface{ Helps() bool })
		shows = shows && helps.Helps()
		switch {
		case lacks == "" && (said != "inside 0\n" || last.Code != 5 || last.Text != ""):
			t.Errorf("an exec session: %q, %+v", said, last)
		case lacks != "" && (last.Code != 125 || !strings.Contains(last.Text, "exec sessions") &&
			!strings.Contains(last.Text, lacks)): // a build that cannot join containers reports that
			t.Errorf("an exec session, which it lacks: %q, %+v", said, last)
		case lacks != "" && !shows && !strings.Contains(last.Text, "the driver "+driver):
			t.Errorf("the driver is not named: %q", last.Text)
		}
		if lacks == "" {
			if said, _ := m.shelled(p, "cat /proc/self/cgroup").end(t); said == "" || !strings.Contains(p.said(), said) {
				t.Errorf("it counts for %q, and the task says %q", said, p.said())
			}
		}
		if !shows {
			said, last = m.ask(p, &launcher.Incoming{Command: []string{"--version"}, Helper: true}).end(t)
			if last.Code != 125 || !strings.Contains(last.Text, "synapse-exec is not available in this task") ||
				!strings.HasPrefix(strings.TrimPrefix(p.said(), string(m.noise)), "exec \n") {
				t.Errorf("synapse-exec: %q, %+v; the task says %q", said, last, p.said())
			}
		} else if lacks == "" {
			m.callsOthers(t, p)
		}
		_ = p.Signal(unix.SIGTERM)
		if exit := await(t, p); exit.Code != 33 {
			t.Errorf("the task ended with %+v", exit)
		}
	})
}

// callsOthers lets a task call another task of its attempt.
func (m *peopled) callsOthers(t *testing.T, p *staged) {
	t.Helper()
	said, last := m.ask(p, &launcher.Incoming{Command: []string{"--version"}, Helper: true}).end(t)
	if last.Code != 0 || !strings.HasPrefix(said, "synapse-exec ") {
		t.Errorf("synapse-exec: %q, %+v", said, last)
	}
	said, last = m.shelled(p, "$SYNAPSE_EXEC :3 echo word").end(t)
	if said != "there\n" || last.Code != 7 {
		t.Errorf("a call of another task: %q, %+v", said, last)
	}
	var call launcher.ExecRequest
	select {
	case call = <-m.calls:
	case <-time.After(limit):
		t.Fatal("no call was reported")
	}
	if call.Job != "job" || messages.FromToken(call.Attempt) != messages.FromToken(p.id.Token) ||
		call.Rank != p.id.Rank || call.Host != ":3" || strings.Join(call.Command, " ") != "/bin/sh -c echo word" {
		t.Errorf("the call was reported as %+v", call)
	}
}

// onJoinable runs a test on a node of each driver with exec sessions. TestExecOfAMachine checks the answers of the
// others.
func onJoinable(t *testing.T, test func(*testing.T, *peopled)) {
	onDrivers(t, []string{"carapace", "process", "crun", "runc"}, func(t *testing.T, s *stack) {
		if lacks := s.Lacks(ExecSessions); lacks != "" {
			t.Skip(lacks) // carapace without root
		}
		test(t, people(t, s))
	})
}

// TestOtherAttemptIsOutOfReach checks that a task's socket does not serve a task of another attempt of the same user.
// The tasks may see the same files, or one may know the other's path.
func TestOtherAttemptIsOutOfReach(t *testing.T) {
	onJoinable(t, func(t *testing.T, m *peopled) {
		mine, other := m.begun(t, "echo ready; exec sleep 1000"), m.begun(t, "echo ready; exec sleep 1000")
		socket := filepath.Join(m.dir, "scratch", other.id.Key().String(), ".synapse", "socket")
		if info, err := os.Stat(socket); err != nil || info.Mode().Type() != os.ModeSocket {
			t.Fatalf("%v, %v", info, err)
		}
		for _, script := range []string{
			"program=$SYNAPSE_EXEC; SYNAPSE_EXEC=" + filepath.Dir(socket) + "/synapse-exec; export SYNAPSE_EXEC\n" +
				"exec $program :0 echo word",
			// A process that has left its parents and its session still belongs to its task.
			"program=$SYNAPSE_EXEC; SYNAPSE_EXEC=" + filepath.Dir(socket) + "/synapse-exec; export SYNAPSE_EXEC\n" +
				"(setsid $program :0 echo word; echo $? >code)& wait; exit $(cat code)",
		} {
			said, last := m.shelled(mine, script).end(t)
			if last.Code != 255 || strings.Contains(said, "there") {
				t.Errorf("%q, %+v", said, last)
			}
			if m.image != "" && !strings.Contains(said, "the socket belongs to another task") {
				t.Errorf("a task that sees the socket gets %q", said)
			}
		}
		said, last := m.shelled(mine, "(setsid $SYNAPSE_EXEC :0 echo word; echo $? >code)& wait; exit $(cat code)").end(t)
		if said != "there\n" || last.Code != 7 {
			t.Errorf("its own: %q, %+v", said, last)
		}
		if call := <-m.calls; messages.FromToken(call.Attempt) != messages.FromToken(mine.id.Token) || len(m.calls) > 0 {
			t.Errorf("%+v was called, and %d more", call, len(m.calls))
		}
	})
}

// TestSupervisorKilledInExec checks kill -9 of a supervisor. By design this ends the task, and the exec sessions end
// with a message. This holds for a process that sleeps with a child without the task's environment, for one that writes
// without end, and for one that was just requested. When the task's end is reported, none of them is left.
func TestSupervisorKilledInExec(t *testing.T) {
	onJoinable(t, func(t *testing.T, m *peopled) {
		p := m.begun(t, "echo ready; exec sleep 1000")
		_, keeper := p.leader(t)
		open := map[string]*execPipe{
			"one that waits": m.shelled(p, "env -i /bin/sh -c 'echo begun; exec /bin/sleep 1000' & wait"),
		}
		open["one that waits"].began(t)
		open["one that writes"] = m.shelled(p, "exec yes")
		open["one that writes"].began(t)
		family := supervisor.Descendants(keeper.PID, supervisor.Processes())
		open["one that begins"] = m.shelled(p, "exec sleep 1000")
		if err := keeper.Send(unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for name, w := range open {
			if _, last := w.end(t); name == "one that begins" && last.Code == 125 && last.Text != "" {
				t.Logf("%s: %s", name, last.Text)
			} else if last.Code != 137 || last.Text != "the task's supervisor was killed" {
				t.Errorf("%s: %+v", name, last)
			}
		}
		select {
		case <-p.gone:
		case <-time.After(2 * limit):
			t.Fatal("the end of the task is not reported")
		}
		if p.exit.Kind != messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST {
			t.Errorf("reported as %v", p.exit)
		}
		for _, member := range family {
			if now, there := supervisor.ReadProcess(member.PID); there && now.Start == member.Start && now.State != 'Z' {
				t.Errorf("%+v outlived the word that it was gone", now)
			}
		}
	})
}
