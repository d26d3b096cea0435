package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// This file tests the reports of a supervisor about its container.

// boxed starts a script in a container, and leaves no cgroup behind.
func boxed(t *testing.T, script string, change func(*carapace.Spec)) *rig {
	t.Helper()
	able.Need(t, able.Containers)
	cgroups := carapace.Cgroups{Parent: fmt.Sprintf("/synapse-supervisor-%d", os.Getpid())}
	state := filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() {
		if swept, err := carapace.GC(state, cgroups); len(swept) > 0 || err != nil {
			t.Errorf("not removed: %q, %v", swept, err)
		}
	})
	return start(t, "", func(s *Spec) {
		box := carapace.Spec{ID: "box", Rootfs: "host", Command: []string{"sh", "-c", script}, Env: s.Env}
		if change != nil {
			change(&box)
		}
		s.Container = &Container{Spec: box, StateDir: state, Cgroups: cgroups}
	})
}

// TestContained checks the reported end of a container, and the party at fault.
func TestContained(t *testing.T) {
	for _, c := range []struct {
		name, script, kind string
		change             func(*carapace.Spec)
		code, signal       int
		detail             string
	}{
		{name: "success", script: "true", kind: Exited},
		{name: "own 125", script: "exit 125", kind: Exited, code: 125},
		{name: "killed by itself", script: "kill -KILL $$", kind: Exited, code: 137, signal: 9},
		{name: "no rootfs", kind: LaunchFailed, code: 125, detail: "rootfs",
			change: func(s *carapace.Spec) { s.Rootfs = "/no/such" }},
		{name: "no program", kind: Exited, code: 127, detail: "no-such-program",
			change: func(s *carapace.Spec) { s.Command = []string{"no-such-program"} }},
		{name: "no device", kind: LaunchFailed, code: 125, detail: "/dev/none",
			change: func(s *carapace.Spec) { s.Devices = []string{"/dev/none"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			exit := boxed(t, c.script, c.change).wait()
			if exit.Kind != c.kind || exit.Code != c.code || exit.Signal != c.signal || exit.OOM ||
				!strings.Contains(exit.Detail, c.detail) || c.detail == "" && exit.Detail != "" {
				t.Errorf("%+v", exit)
			}
		})
	}
}

// TestContainedStop checks that a signal reaches only the command, and a kill reaches the whole container.
func TestContainedStop(t *testing.T) {
	deaf := `trap "" TERM; sleep 1000 & echo ready; wait; wait`
	for _, c := range []struct {
		name, script string
		end          func(*rig) error
		code, signal int
	}{
		{"stop", `trap "exit 7" TERM; echo ready; while :; do sleep 0.01; done`, func(r *rig) error { return r.link.Stop(int(unix.SIGTERM), time.Minute) }, 7, 0},
		{"stop that is not heard", deaf,
			func(r *rig) error { return r.link.Stop(int(unix.SIGTERM), 200*time.Millisecond) }, 137, 9},
		{"stop without grace", deaf, func(r *rig) error { return r.link.Stop(int(unix.SIGTERM), 0) }, 137, 9},
		{"SIGKILL", deaf, func(r *rig) error { return r.link.Signal(int(unix.SIGKILL)) }, 137, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := boxed(t, c.script, nil)
			r.started()
			eventually(t, "no output", func() bool { return r.output(Stdout) == "ready\n" })
			if err := c.end(r); err != nil {
				t.Fatal(err)
			}
			if exit := r.wait(); exit.Code != c.code || exit.Signal != c.signal || exit.Kind != Exited || exit.Detail != "" {
				t.Errorf("%+v", exit)
			}
			r.nothingLeft()
		})
	}
}

// TestContainedStopAtOnce checks that a stop during the start of the container is never lost.
func TestContainedStopAtOnce(t *testing.T) {
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		for _, pause := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 6 * time.Millisecond} {
			r := boxed(t, "exec sleep 1000", nil)
			time.Sleep(pause) // each pause reaches another step of the start
			if err := r.link.Stop(int(signal), time.Minute); err != nil {
				t.Fatal(err)
			}
			if exit := r.wait(); exit.Code != 128+int(signal) || exit.Kind != Exited {
				t.Errorf("%v after %v: %+v", signal, pause, exit)
			}
			r.nothingLeft()
		}
	}
}

// TestContainedSupervisorKilled checks that the container dies with its supervisor, and that its remains can be
// removed.
func TestContainedSupervisorKilled(t *testing.T) {
	r := boxed(t, "(setsid sleep 1000 &); echo ready; exec sleep 1000", nil)
	r.started()
	eventually(t, "no output", func() bool { return r.output(Stdout) == "ready\n" })
	state, err := ReadState(r.dir)
	if err != nil || state.PID == 0 {
		t.Fatalf("%+v, %v", state, err)
	}
	leader, _ := ReadProcess(state.PID)
	keeper, _ := ReadProcess(leader.Parent)
	if err := keeper.Send(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := r.link.Next(); !e.Closed {
		t.Errorf("%+v", e)
	}
	r.nothingLeft()
	var spec Spec
	if found, err := readJSON(filepath.Join(r.dir, specFile), &spec); !found || err != nil {
		t.Fatal(err)
	}
	eventually(t, "it cannot be swept", func() bool {
		return carapace.RemoveID(spec.Container.StateDir, "box", spec.Container.Cgroups) == nil
	})
}
