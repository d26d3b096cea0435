//go:build linux

// This file runs the suite against carapace as a library in this process.
package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// TestMain lets this binary make a container without root, and run the probe of probe_test.go inside one.
func TestMain(m *testing.M) {
	if code, mine := carapace.Reexec(os.Args); mine {
		os.Exit(code)
	}
	if len(os.Args) > 2 && os.Args[1] == probeArgument {
		os.Exit(probe(os.Args[2:]))
	}
	if code, mine := standIn(os.Args); mine {
		os.Exit(code)
	}
	if err := OwnMounts(os.Args, os.Environ()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	limit = pace.Of(limit) // a child of this binary measures nothing
	code := m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

// library drives carapace in this process.
type library struct {
	options carapace.Options
	lacking map[string]string
}

// newLibrary returns a driver with a separate state directory and cgroup parent.
func newLibrary(t testing.TB) *library {
	t.Helper()
	able.Need(t, able.Containers)
	d := &library{lacking: map[string]string{}}
	d.options = carapace.Options{
		StateDir: filepath.Join(t.TempDir(), "state"), Cgroups: carapace.Cgroups{Parent: "/" + NewID()},
	}
	for _, finding := range carapace.Check(d.options.Cgroups) {
		if !finding.OK {
			d.lacking[finding.Name] = ofMachine + finding.Reason
		}
	}
	asked := d.options.Cgroups // a test may later use another root, and the check has made groups in this one
	t.Cleanup(func() {
		if _, err := carapace.GC(d.options.StateDir, d.options.Cgroups); err != nil {
			t.Error(err)
		}
		// While any process on this host makes a container, it holds all parent groups.
		until(t, d.options.Cgroups.Parent+" is left", func() bool {
			_, err := carapace.GC(d.options.StateDir, d.options.Cgroups)
			_, wrong := carapace.GC(d.options.StateDir, asked)
			return err == nil && wrong == nil && len(parents(d.options.Cgroups.Parent)) == 0
		})
	})
	return d
}

// parents returns the groups of that name in every hierarchy.
func parents(name string) []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup" + name, "/sys/fs/cgroup/*" + name} {
		folders, _ := filepath.Glob(pattern)
		found = append(found, folders...)
	}
	return found
}

func (d *library) Lacks(trait Trait) string {
	switch trait {
	case Memory, ReportsOOM:
		return d.lacking["memory limit"]
	case Pids, PidsExact:
		return d.lacking["pids limit"]
	case Devices:
		return d.lacking["devices"]
	}
	return d.lacking["mounts"]
}

func specOf(task Task) carapace.Spec {
	spec := carapace.Spec{
		ID: task.ID, Rootfs: task.Rootfs, Command: task.Command, Env: task.Env, User: task.User, Devices: task.Devices,
		CapAdd: task.CapAdd,
		Limits: carapace.Limits{MemoryBytes: task.MemoryBytes, Pids: task.Pids, MilliCPU: task.MilliCPU},
	}
	for target, source := range task.Mounts {
		spec.Mounts = append(spec.Mounts, carapace.Mount{Source: source, Target: target})
	}
	return spec
}

// coded gives a failed start its exit code.
type coded struct {
	error
	code int
}

func (c coded) ExitCode() int { return c.code }
func (c coded) Unwrap() error { return c.error }

func (d *library) Start(task Task) (Running, error) { return d.start(task, specOf(task)) }

func (d *library) start(task Task, spec carapace.Spec) (Running, error) {
	options := d.options
	options.Stdin, options.Stdout, options.Stderr = task.Stdin, task.Stdout, task.Stderr
	container, err := carapace.Start(spec, options)
	if failure := new(carapace.StartError); errors.As(err, &failure) {
		return nil, coded{err, failure.Code}
	}
	if err != nil {
		return nil, err
	}
	return contained{container}, nil
}

type contained struct{ *carapace.Container }

func (c contained) Exit() Exit {
	exit := c.Wait()
	if exit.Leftover != "" {
		return Exit{Code: -1}
	}
	return Exit{Code: exit.Code, OOM: exit.OOM}
}
func (c contained) Signal(signal syscall.Signal) error { return c.Container.Signal(signal) }

func (d *library) Leavings() ([]string, error) {
	var left []string
	states, err := carapace.List(d.options.StateDir)
	for _, state := range states {
		left = append(left, "state of "+state.ID)
	}
	for _, parent := range parents(d.options.Cgroups.Parent) {
		entries, err := os.ReadDir(parent)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if entry.IsDir() {
				left = append(left, filepath.Join(parent, entry.Name()))
			}
		}
	}
	return left, err
}

// TestCarapace runs the suite on the host's own cgroups.
func TestCarapace(t *testing.T) { Run(t, newLibrary(t)) }

// TestCarapaceUnified runs the suite on cgroup v2. On a hybrid host, that tree has no controllers, and TestCarapace
// tests the limits. This test covers creation in a group, its kill, its device filter and its removal. Namespaces are
// kept apart as with systemd.
func TestCarapaceUnified(t *testing.T) {
	d := newLibrary(t)
	root := able.UnifiedRoot()
	if root == "" {
		t.Skip("no cgroup v2 is mounted at /sys/fs/cgroup/unified; TestCarapace covers the mounted version")
	}
	able.Delegate(t)
	d.options.Cgroups.Root = root
	clear(d.lacking)
	for _, finding := range carapace.Check(d.options.Cgroups) {
		if !finding.OK {
			d.lacking[finding.Name] = finding.Reason
		}
	}
	Run(t, d)
}

func (d *library) String() string {
	return fmt.Sprintf("carapace in %s", strings.TrimPrefix(d.options.Cgroups.Parent, "/"))
}
