//go:build world

package world

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/hostpolicy"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/oci"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/topology"
)

// This file provides a node's launcher with an OCI runtime.

type machine struct {
	launcher *launcher.Launcher
	pid      *actor.PID
	dir      string
	said     chan any
	counter  uint64
}

type quiet struct {
	actors.NoLog
	t *testing.T
}

func (q quiet) Info(format string, args ...any) { q.t.Logf(format, args...) }

// newMachine returns a launcher for jobs that may be root of their containers, with its images next to its folder.
func newMachine(t *testing.T, binary, runtime, dir string) *machine {
	t.Helper()
	cgroups := carapace.Cgroups{Parent: "/world-" + filepath.Base(dir)}
	if err := os.Mkdir(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	roots, err := account.OpenRoots(filepath.Join(dir, "roots"), topology.UIDRange{First: 400_000_000, Last: 400_131_071},
		carapace.IDsLen)
	if err != nil {
		t.Fatal(err)
	}
	around, err := container.New(container.Options{
		Binary: binary, StateDir: filepath.Join(dir, "carapace"), Cgroups: cgroups, Users: account.Rules{Roots: roots},
		Policy: hostpolicy.Policy{Images: []string{filepath.Dir(dir)}},
	})
	if err == nil {
		err = around.Check(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	driver, err := oci.New(oci.Options{
		Runtime: runtime, StateDir: filepath.Join(dir, "runtime"), Cgroups: cgroups, Container: around,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := driver.Try(t.Context()); err != nil {
		t.Skip(err)
	}
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
	m := &machine{dir: filepath.Join(dir, "launcher"), said: make(chan any, 64)}
	pass := func(ctx actor.Context) { m.said <- ctx.Message() }
	m.pid = system.Root.Spawn(actor.PropsFromFunc(pass, actor.WithMailbox(link.Mailbox)))
	m.launcher, err = launcher.New(launcher.Options{
		System: system, Log: quiet{t: t}, Dir: m.dir, BootID: "boot", Supervisor: []string{binary, supervisor.SubCommand},
		Drivers: []launcher.Driver{driver},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.launcher.Close()
		system.Shutdown()
		if err := able.Sweep(filepath.Join(dir, "carapace"), cgroups); err != nil {
			t.Error(err)
		}
		// in hierarchies that only the runtime uses
		left, _ := filepath.Glob("/sys/fs/cgroup/*" + cgroups.Parent)
		for _, folder := range left {
			_ = os.Remove(folder)
		}
	})
	return m
}

// runs runs a job's task to its end, and returns its output.
func (m *machine) runs(t *testing.T, spec *messages.JobSpec) (*messages.Exit, string) {
	t.Helper()
	m.counter++
	id := &messages.TaskId{Token: &messages.Token{Epoch: 1, Counter: m.counter}}
	grant := &messages.Grant{Amount: &messages.Resources{}}
	m.launcher.Tell(&messages.PrepareTask{Id: id, Job: "job", Spec: spec, Grant: grant}, m.pid)
	m.launcher.Tell(&messages.StartTask{
		Id: id, Job: "job", Spec: spec, Grant: grant, JobName: "world", Run: 1, Node: "here",
		Rendezvous: &messages.Rendezvous{
			Address: "127.0.0.1", Port: 20000, Peers: []*messages.Peer{{Node: "here", Address: "127.0.0.1"}},
		},
	}, m.pid)
	home := filepath.Join(m.dir, "tasks", id.Key().String())
	for end := time.After(5 * time.Minute); ; {
		select {
		case message := <-m.said:
			gone, ok := message.(*messages.TaskGone)
			if !ok {
				continue
			}
			_, text, _, _ := supervisor.ReadLog(home, supervisor.Stdout, 0, 1<<16)
			_, wrong, _, _ := supervisor.ReadLog(home, supervisor.Stderr, 0, 1<<16)
			m.launcher.Tell(&messages.ForgetTask{Id: id}, nil)
			for { // The test bounds this.
				if _, err := os.Stat(home); err != nil {
					return gone.Exit, string(text) + string(wrong)
				}
				time.Sleep(time.Millisecond)
			}
		case <-end:
			t.Fatal("the task does not end")
		}
	}
}
