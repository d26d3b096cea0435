//go:build linux

package oci

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// written returns the bundle's configuration as a runtime would read it.
func written(t *testing.T, s carapace.Spec) *specs.Spec {
	t.Helper()
	d, err := New(Options{Runtime: "/no/runc", StateDir: filepath.Join(t.TempDir(), "state")})
	if err != nil {
		t.Fatal(err)
	}
	bundle := t.TempDir()
	if _, err := d.write(&s, bundle, filepath.Join(bundle, rootName)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	c := &specs.Spec{}
	if err := json.Unmarshal(text, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConfig checks that limits, user, devices and mounts match the description, and that all other devices are denied.
func TestConfig(t *testing.T) {
	c := written(t, carapace.Spec{
		ID: "x", Rootfs: "/srv/image", Command: []string{"a", ""}, Env: []string{"PATH=/opt"}, User: "1000:44",
		Groups: []uint32{7}, Scratch: "/s",
		Mounts:  []carapace.Mount{{Source: "/data", Target: "/d", ReadOnly: true}},
		Devices: []string{"/dev/null"}, Net: "none", Limits: carapace.Limits{MemoryBytes: 1 << 30, MilliCPU: 1500, Pids: 9},
		Rlimits: []carapace.Rlimit{{Name: "memlock", Soft: -1, Hard: -1}},
	})
	p, r := c.Process, c.Linux.Resources
	if !slices.Equal(p.Args, []string{"a", ""}) || !slices.Equal(p.Env, []string{"PATH=/opt", "HOME=/"}) ||
		p.Cwd != "/scratch" || !p.NoNewPrivileges {
		t.Errorf("%+v", p)
	}
	if p.User.UID != 1000 || p.User.GID != 44 || !slices.Equal(p.User.AdditionalGids, []uint32{7}) ||
		len(p.Capabilities.Effective) > 0 {
		t.Errorf("%+v, %+v", p.User, p.Capabilities)
	}
	if p.Rlimits[0].Type != "RLIMIT_MEMLOCK" || p.Rlimits[0].Hard != ^uint64(0) {
		t.Errorf("%+v", p.Rlimits)
	}
	if *r.Memory.Limit != 1<<30 || r.Pids.Limit != 9 || *r.CPU.Quota != 150_000 || *r.CPU.Period != 100_000 {
		t.Errorf("%+v", r)
	}
	if first := r.Devices[0]; first.Allow || first.Access != "rwm" || first.Type != "" || len(r.Devices) != 2 ||
		*r.Devices[1].Minor != 3 {
		t.Errorf("%+v", r.Devices)
	}
	for _, m := range c.Mounts { // the job's mounts are already in the root, and the runtime gets none of their paths
		if strings.HasPrefix(m.Source, "/") || m.Type == "bind" {
			t.Errorf("%+v", m)
		}
	}
	if c.Linux.CgroupsPath != "/synapse/x" || !slices.ContainsFunc(c.Linux.Namespaces,
		func(n specs.LinuxNamespace) bool { return n.Type == specs.NetworkNamespace }) {
		t.Errorf("%+v", c.Linux)
	}
}

// TestBadDevice checks that a missing device is reported before any start.
func TestBadDevice(t *testing.T) {
	for _, path := range []string{"/dev/none", "/etc"} {
		if _, err := config(&carapace.Spec{Devices: []string{path}}, "/", "/x"); err == nil ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestPidReuse checks that another process with the recorded pid is not killed.
func TestPidReuse(t *testing.T) {
	d := &Driver{o: Options{Runtime: "/no/runc"}}
	self, _ := supervisor.ReadProcess(os.Getppid())
	state := &supervisor.State{PID: self.PID, Start: self.Start + 1}
	if found := d.remains(&launcher.Task{Dir: t.TempDir()}, state); len(found) > 0 {
		t.Errorf("%+v would be killed", found)
	}
	state.Start = self.Start
	if found := d.remains(&launcher.Task{Dir: t.TempDir()}, state); len(found) != 1 {
		t.Errorf("%+v", found)
	}
}
