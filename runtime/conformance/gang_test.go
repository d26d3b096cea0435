//go:build linux

// This file tests what a task sees of its gang.
package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
)

// TestGangShown checks that in a container the names of a gang's nodes resolve with priority over the root's own
// entries. DeepSpeed finds its list of nodes. A task without a gang or with another launcher sees the root's own files.
// A plain process sees the host's. A root without /etc also starts.
func TestGangShown(t *testing.T) {
	const shown = "cat /etc/hosts 2>/dev/null; echo --; cat /job/hostfile 2>/dev/null; exit 0"
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		contained := driver != "process"
		root := able.MakeRootfs(t)
		if contained {
			if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			able.WriteFile(t, filepath.Join(root, "etc/hosts"), "10.9.9.9 there\n", 0o644)
		}
		want := "127.0.0.1 here\n127.0.0.2 there\n127.0.0.1 localhost\n::1 localhost\n--\n" +
			"127.0.0.1 slots=1\n127.0.0.2 slots=1\n"
		if r := s.try(t, root, shown, ofTwo); contained && r.said != want || !r.ran() ||
			!contained && !strings.HasSuffix(r.said, "--\n") {
			t.Errorf("a gang of two: %v %q", r.exit, r.said)
		}
		if r := s.try(t, root, shown, nil); contained && r.said != "10.9.9.9 there\n--\n" || !r.ran() {
			t.Errorf("alone: %v %q", r.exit, r.said)
		}
		if !contained {
			return
		}
		linked := able.MakeRootfs(t)
		if err := os.RemoveAll(filepath.Join(linked, "etc")); err != nil {
			t.Fatal(err)
		}
		able.WriteFile(t, filepath.Join(linked, "etc"), "no directory\n", 0o644)
		if r := s.try(t, linked, "exit 0", ofTwo); !r.ran() {
			t.Errorf("a root without a place for names: %v", r.exit)
		}
	})
}

// ofTwo makes a job a gang of two nodes with the launcher deepspeed.
func ofTwo(j *messages.JobSpec) {
	j.Gang = &messages.GangSpec{ReplicasMin: 2, ReplicasMax: 2}
	j.Launcher = messages.Launch_LAUNCH_DEEPSPEED
}
