//go:build linux

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/yi-json/synapse/runtime/carapace"
)

func TestFlagsBecomeASpec(t *testing.T) {
	t.Setenv("FROM_HERE", "there")
	r, code, done := readRequest([]string{"--rootfs", "host", "--id", "x", "--memory", "2g", "--shm", "64MiB", "--cpus",
		"1.5", "--pids", "7",
		"--cpuset", "0-1", "--device", "/dev/a", "--device", "/dev/b", "--mount", "/a:/b:ro", "--mount", "/c:/d", "--env",
		"A=b=c", "--env", "FROM_HERE",
		"--rlimit", "memlock=unlimited", "--rlimit", "nofile=1:2", "--cap-add", "KILL", "--init=false", "--limits-required",
		"--", "sh", "-c", "--", "x"})
	if done {
		t.Fatalf("code %d", code)
	}
	want := carapace.Spec{ID: "x", Rootfs: "host", Command: []string{"sh", "-c", "--", "x"},
		Env:      []string{"A=b=c", "FROM_HERE=there"},
		Mounts:   []carapace.Mount{{Source: "/a", Target: "/b", ReadOnly: true}, {Source: "/c", Target: "/d"}},
		Devices:  []string{"/dev/a", "/dev/b"},
		ShmBytes: 64 << 20, Limits: carapace.Limits{
			MemoryBytes: 2 << 30, MilliCPU: 1500, Pids: 7, Cpuset: "0-1", Required: true,
		},
		Rlimits: []carapace.Rlimit{{Name: "memlock", Soft: -1, Hard: -1}, {Name: "nofile", Soft: 1, Hard: 2}},
		CapAdd:  []string{"KILL"}, NoInit: true}
	if !reflect.DeepEqual(r.spec, want) {
		t.Errorf("got  %+v\nwant %+v", r.spec, want)
	}
}

// TestBareForm checks the older command line for a container in ./rootfs, with and without the doubled dashes that
// the older parser needed.
func TestBareForm(t *testing.T) {
	for _, line := range [][]string{
		{"/bin/sh", "-c", "x"}, {"/bin/sh", "--", "--", "-c", "x"}, {"--", "/bin/sh", "-c", "x"},
	} {
		r, code, done := readRequest(line)
		if done {
			t.Fatalf("%q: code %d", line, code)
		}
		rootfs, _ := filepath.Abs("rootfs")
		if r.spec.Rootfs != rootfs || !reflect.DeepEqual(r.spec.Command, []string{"/bin/sh", "-c", "x"}) {
			t.Errorf("%q became %+v", line, r.spec)
		}
	}
}

func TestRefusals(t *testing.T) {
	spec := filepath.Join(t.TempDir(), "spec.json")
	for _, text := range []string{"", "{", `{"unknown": 1}`, `{} {}`, `[]`} {
		if err := os.WriteFile(spec, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, code, done := readRequest([]string{"--spec", spec}); !done || code != carapace.CodeSetupFailed {
			t.Errorf("spec %q: done %v, code %d", text, done, code)
		}
	}
	for _, line := range [][]string{{}, {"--memory", "8x", "true"}, {"--memory", "99999999t", "true"},
		{"--cpus", "NaN", "true"}, {"--cpus", "0", "true"},
		{"--mount", "/a", "true"}, {"--rlimit", "nofile", "true"}, {"--env", "NOT_SET_ANYWHERE", "true"},
		{"--spec", spec, "true"}, {"--no-such", "true"},
		{"--spec", spec, "--memory", "1g"}} {
		if _, code, done := readRequest(line); !done || code != carapace.CodeSetupFailed {
			t.Errorf("%q: done %v, code %d", line, done, code)
		}
	}
}

func TestSignalNames(t *testing.T) {
	for text, want := range map[string]int{"TERM": 15, "sigkill": 9, "15": 15, "0": 0, "65": 0, "NOPE": 0, "": 0} {
		if got := signalOf(text); int(got) != want {
			t.Errorf("%q is signal %d, not %d", text, got, want)
		}
	}
}
