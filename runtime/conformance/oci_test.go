//go:build linux

// This file runs the suite on nodes whose containers are made by other programs.
package conformance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/egress"
	"github.com/yi-json/synapse/runtime/hostpolicy"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/oci"
	"github.com/yi-json/synapse/runtime/upstream"
	"github.com/yi-json/synapse/test/able"
)

// newOCI returns the stack with an OCI runtime. It skips the test if the runtime is missing or does not work here.
func newOCI(t testing.TB, name string) *stack { return ociFor(t, name, allRoot) }

func ociFor(t testing.TB, name string, users account.Rules, policy ...hostpolicy.Policy) *stack {
	t.Helper()
	return ociAt(t, able.Runtime(t, name), users, policy...)
}

// ociAt does the same with the program at this path.
func ociAt(t testing.TB, path string, users account.Rules, policy ...hostpolicy.Policy) *stack {
	t.Helper()
	place := newLibrary(t)
	binary := buildCommand(t)
	options := container.Options{
		Binary: binary, StateDir: place.options.StateDir, Cgroups: place.options.Cgroups, Users: users, MaxProcesses: 64,
		Unreachable: func() []egress.Place { return withheld }, Private: networks,
	}
	for _, options.Policy = range policy {
	}
	state := filepath.Join(t.TempDir(), "runtime")
	made := func() (*oci.Driver, error) {
		around, err := container.New(options)
		if err == nil {
			err = around.Check(context.Background())
		}
		if err != nil {
			return nil, err
		}
		return oci.New(oci.Options{Runtime: path, StateDir: state, Cgroups: place.options.Cgroups, Container: around})
	}
	driver, err := made()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the program leaves the parent group in hierarchies that this project does not use
		for _, folder := range parents(place.options.Cgroups.Parent) {
			_ = os.Remove(folder)
		}
	})
	if err := driver.Try(t.Context()); err != nil {
		t.Skip(err)
	}
	s := newStack(t, binary, driver)
	s.remake = func() (launcher.Driver, error) {
		driver, err := made()
		if err == nil {
			err = driver.Try(context.Background())
		}
		return driver, err
	}
	s.cgroups = place.options.Cgroups
	own := s.leavings
	s.leavings = func() ([]string, error) {
		tasks, err := own()
		containers, wrong := place.Leavings()
		known, _ := filepath.Glob(filepath.Join(state, "*"))
		return append(append(tasks, containers...), known...), errors.Join(err, wrong)
	}
	const none = "the command is PID 1"
	s.lacks = map[Trait]string{
		Init: none, PidsExact: notOfAJob, Devices: notOfAJob, Handed: "its output is kept in files",
		Memory: place.Lacks(Memory), ReportsOOM: place.Lacks(ReportsOOM),
		Pids: place.Lacks(Pids), Namespaces: place.Lacks(Namespaces),
		ExecCodes:    "a command that proves to be no program only when it is executed ends with the runtime's own code",
		PlainRoot:    "runtimes follow links in a root, within it",
		ExecSessions: place.Lacks(ExecSessions),
	}
	return s
}

// TestOCIOfAMachine runs the suite on launcher, supervisor and OCI runtimes.
func TestOCIOfAMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: other people's programs")
	}
	for _, name := range oci.Runtimes {
		t.Run(name, func(t *testing.T) { Run(t, newOCI(t, name)) })
	}
}

// TestRecordRemoved checks that the records of runc and crun are removed after the end of a container, without running
// the program. An unknown program is run to delete its record. Temporary files, like those of crun for its own binary,
// are removed with the task if they are left. None is in /tmp.
func TestRecordRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: other people's programs")
	}
	for _, name := range oci.Runtimes {
		for as, deletes := range map[string]int{name: 0, "another": 1} {
			t.Run(name+" as "+as, func(t *testing.T) {
				folder := t.TempDir()
				said, wrapper := filepath.Join(folder, "said"), filepath.Join(folder, as)
				elsewhere := filepath.Join(folder, "elsewhere")
				if err := os.Mkdir(elsewhere, 0o700); err != nil {
					t.Fatal(err)
				}
				able.WriteFile(t, wrapper, "#!/bin/sh\necho \"$@\" >>"+said+"\n"+
					": >${_LIBCONTAINER_STATEDIR:-"+elsewhere+"}/moment.$$\n"+
					"exec "+able.Runtime(t, name)+" \"$@\"\n", 0o755)
				s := ociAt(t, wrapper, allRoot)
				Guard(t, s.leavings)
				s.image = "host"
				p, err := s.prepare(Task{Command: []string{"/bin/true"}})
				if err != nil {
					t.Fatal(err)
				}
				_ = os.Remove(said) // the output of the first test run
				p.start()
				<-p.gone
				text, err := os.ReadFile(said)
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Count(string(text), " delete "); got != deletes {
					t.Errorf("it was asked to delete %d times, not %d:\n%s", got, deletes, text)
				}
				_, rest, _ := strings.Cut(string(text), "--root ")
				records, _, _ := strings.Cut(rest, " ")
				if kept, err := os.ReadDir(records); err != nil || len(kept) > 0 {
					t.Errorf("%v is left, %v", kept, err)
				}
				go p.see(nil, nil)
				<-p.done
				if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
					t.Errorf("%v is left of the program itself, %v", left, err)
				}
			})
		}
	}
}

// TestParentsStay checks the parent groups that the agents of one host share. An agent that finds them empty removes
// them. A runtime that has just made them does not check again.
func TestParentsStay(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: other people's programs")
	}
	for _, name := range oci.Runtimes {
		t.Run(name, func(t *testing.T) {
			s := newOCI(t, name)
			driver := s.options.Drivers[0].(*oci.Driver)
			done, swept, others := make(chan struct{}), make(chan error, 1), t.TempDir()
			go func() {
				for {
					select {
					case <-done:
						swept <- nil
						return
					default:
						if _, err := carapace.GC(others, s.cgroups); err != nil {
							swept <- err
							return
						}
					}
				}
			}()
			t.Cleanup(func() {
				close(done)
				if err := <-swept; err != nil {
					t.Error(err)
				}
			})
			for range 10 {
				if err := driver.Try(t.Context()); err != nil {
					t.Error(err)
				}
				p, err := s.prepare(Task{Rootfs: able.MakeRootfs(t), Command: []string{"/bin/sh", "-c", "exit 7"}})
				if err != nil {
					t.Fatal(err)
				}
				p.start()
				if <-p.gone; p.exit.GetCode() != 7 {
					t.Errorf("a task ended with %d: %s", p.exit.GetCode(), p.exit.GetDetail())
				}
			}
		})
	}
}

// newUpstream returns the stack with the other carapace. If that is not available, the test's own binary imitates its
// known behaviour.
func newUpstream(t testing.TB) *stack {
	t.Helper()
	place := newLibrary(t)
	binary := buildCommand(t)
	around, err := container.New(container.Options{
		Binary: binary, StateDir: place.options.StateDir, Cgroups: place.options.Cgroups,
		Users: account.Rules{AllowRoot: true}, MaxProcesses: 64,
	})
	if err == nil {
		err = around.Check(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	other := *upstreamBinary
	if other == "" {
		if other, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	if !upstream.Is(t.Context(), other) {
		t.Fatal(other, "is not taken for the other carapace")
	}
	s := newStack(t, binary, upstream.New(other, around))
	own := s.leavings
	s.leavings = func() ([]string, error) {
		tasks, err := own()
		containers, wrong := place.Leavings()
		return append(tasks, containers...), errors.Join(err, wrong)
	}
	const code = "whatever goes wrong before the command runs, it ends with 1"
	s.lacks = map[Trait]string{
		Init: "the command is PID 1", PidsExact: notOfAJob, Devices: notOfAJob, Handed: "its output is kept in files",
		Memory:     place.Lacks(Memory),
		ReportsOOM: place.Lacks(ReportsOOM), Pids: place.Lacks(Pids), Namespaces: place.Lacks(Namespaces), ExecCodes: code,
		PlainRoot: code, Users: "it runs everything as root", OwnDev: "it makes no /dev",
		Links:        "what is mounted is mounted before it changes its root",
		ExecSessions: "it has a root of its program's making",
	}
	s.noise = []byte(strings.Join(standInNoise, ""))
	return s
}

// TestUpstreamOfAMachine runs the suite on launcher, supervisor and the other carapace.
func TestUpstreamOfAMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a binary")
	}
	Run(t, newUpstream(t))
}
