//go:build linux

package carapace

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLimitAll checks that the parent group gets the limit in both versions of cgroups, and only if the limit differs.
// The root group is unchanged. A group without the controller returns an error.
func TestLimitAll(t *testing.T) {
	for _, unified := range []bool{true, false} {
		root := t.TempDir()
		parent := filepath.Join(root, "synapse")
		if err := os.Mkdir(parent, 0o700); err != nil {
			t.Fatal(err)
		}
		h := hierarchies{by: map[string]string{"pids": root}}
		if unified {
			h = hierarchies{unified: root}
		}
		put := func(folder, name, text string) {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put(parent, "pids.max", "max\n")
		put(root, "pids.max", "max\n")
		if err := limitAllPids(h, parent, 900); unified && err == nil {
			t.Error("a group without the controller is limited")
		}
		put(parent, "cgroup.controllers", "memory pids\n")
		put(root, "cgroup.controllers", "memory pids\n")
		for _, folder := range []string{parent, root} {
			if err := limitAllPids(h, folder, 900); err != nil {
				t.Fatal(err)
			}
		}
		if n := readNumber(filepath.Join(parent, "pids.max")); n != 900 {
			t.Errorf("unified %v: the parent has %d", unified, n)
		}
		if text, _ := os.ReadFile(filepath.Join(root, "pids.max")); string(text) != "max\n" {
			t.Errorf("the root group has %q", text)
		}
		g := &cgroup{}
		if g.limitAll(h, "/synapse", Limits{AllPids: 700}); len(g.unenforced) > 0 {
			t.Error(g.unenforced)
		}
		if n := readNumber(filepath.Join(parent, "pids.max")); n != 700 {
			t.Errorf("unified %v: the parent has %d behind a container", unified, n)
		}
	}
}
