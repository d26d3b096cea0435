//go:build linux

// This file tests the reported fault of a task that never ran, in every driver. A leader closes nodes and ends jobs
// based on this fault.
package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
)

// refused prepares and starts a job that cannot run, and returns its exit.
func (s *stack) refused(t *testing.T, change func(*messages.JobSpec)) *messages.Exit {
	t.Helper()
	counter := s.drawn.Add(1)
	p := &staged{
		of: s, id: &messages.TaskId{Token: &messages.Token{Epoch: 1, Counter: counter}},
		spec:     s.job(Task{Rootfs: able.MakeRootfs(t), Command: []string{"/bin/sh", "-c", "exit 0"}}),
		grant:    &messages.Grant{Amount: &messages.Resources{}},
		prepared: make(chan struct{}), started: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}),
	}
	change(p.spec)
	s.runs.Store(counter, p)
	s.launcher.Tell(&messages.PrepareTask{Id: p.id, Job: "job", Spec: p.spec, Grant: p.grant}, s.pid)
	p.start()
	select {
	case <-p.gone:
	case <-time.After(limit):
		t.Fatal("it is neither run nor refused")
	}
	s.launcher.Tell(&messages.ForgetTask{Id: p.id}, nil)
	until(t, "it is not forgotten", func() bool { _, err := os.Stat(p.home()); return err != nil })
	return p.exit
}

// TestFaultOnAMachine checks that a mistake in the job is never the node's fault, and that a failure without influence
// of the job always is.
func TestFaultOnAMachine(t *testing.T) {
	onEveryDriver(t, func(t *testing.T, s *stack) {
		for _, c := range []struct {
			name   string
			change func(*messages.JobSpec)
			want   messages.Fault
		}{
			{"a mistyped image", func(j *messages.JobSpec) { j.Image = "/no/such/image" }, messages.Fault_FAULT_UNKNOWN},
			{"a mistyped user", func(j *messages.JobSpec) { j.User = "nosuchuser" }, messages.Fault_FAULT_UNKNOWN},
			{"a mistyped mount", func(j *messages.JobSpec) {
				j.Mounts = []*messages.Mount{{Source: "/no/such", Target: "/no/such"}}
			}, messages.Fault_FAULT_UNKNOWN},
			{"a file for a workdir", func(j *messages.JobSpec) { j.Workdir = "/bin/sh" }, messages.Fault_FAULT_UNKNOWN},
		} {
			if c.name == "a file for a workdir" && strings.HasSuffix(t.Name(), "/upstream") {
				continue // that program has its own workdir
			}
			exit := s.refused(t, c.change)
			if exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED &&
				exit.Kind != messages.ExitKind_EXIT_KIND_LAUNCH_FAILED || exit.Fault != c.want {
				t.Errorf("%s: %v", c.name, exit)
			}
		}
		tasks := filepath.Join(s.dir, "tasks")
		if err := os.Rename(tasks, tasks+".gone"); err != nil {
			t.Fatal(err)
		}
		exit := s.refused(t, func(*messages.JobSpec) {})
		if exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || exit.Fault != messages.Fault_FAULT_MACHINE {
			t.Errorf("without the agent's own directory: %v", exit)
		}
		if err := os.RemoveAll(tasks); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tasks+".gone", tasks); err != nil {
			t.Fatal(err)
		}
	})
}
