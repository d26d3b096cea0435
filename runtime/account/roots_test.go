package account

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/topology"
)

// TestRoots checks that each folder keeps a separate part while it exists, also for a later agent, and that a freed
// part is reused last.
func TestRoots(t *testing.T) {
	dir, all := t.TempDir(), topology.UIDRange{First: 1_000_000, Last: 1_000_299}
	folder := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	open := func() *Roots {
		r, err := OpenRoots(filepath.Join(dir, "roots"), all, 100)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	expect := func(holder string, want uint32) {
		t.Helper()
		if got, err := r.Take(holder); err != nil || got != want {
			t.Errorf("%s has %d (%v), not %d", filepath.Base(holder), got, err, want)
		}
	}
	a, b := folder("a"), folder("b")
	expect(a, 1_000_000)
	expect(b, 1_000_100)
	expect(a, 1_000_000)
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	expect(folder("c"), 1_000_200) // the part that was just freed is last
	r = open()
	expect(b, 1_000_100)
	expect(folder("d"), 1_000_000)
	if got, err := r.Take(folder("e")); err == nil || fault.Of(err) != fault.Unknown ||
		!strings.Contains(err.Error(), "--root-uids") {
		t.Errorf("a fourth has %d (%v)", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "roots", "1000200"), nil, 0o600); err != nil { // an incomplete file
		t.Fatal(err)
	}
	expect(folder("e"), 1_000_200)
}

func TestCheckRoots(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/subuid"), []byte("ann:1000000:65536\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	uids := topology.UIDRange{First: 2_000_000, Last: 2_999_999}
	for _, c := range []struct {
		roots topology.UIDRange
		says  string
	}{
		{topology.UIDRange{}, ""}, {topology.UIDRange{First: 3_000_000, Last: 3_065_535}, ""},
		{topology.UIDRange{First: 3_000_000, Last: 3_065_534}, "needs 65536"},
		{topology.UIDRange{First: 2_999_999, Last: 3_100_000}, "overlaps with --uids"},
		{topology.UIDRange{First: 1_900_000, Last: 2_000_000}, "overlaps with --uids"},
		{topology.UIDRange{First: 1_065_535, Last: 1_200_000}, "ann has ids"},
	} {
		err := checkRoots(root, c.roots, uids, 65536)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.roots, err)
		}
	}
}

// TestOwnRoot checks that a container's root is a user other than root on the host, and never that of another job.
func TestOwnRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to act as another user")
	}
	rules := Rules{UIDs: topology.UIDRange{First: 2_000_000, Last: 2_000_100}, Roots: &Roots{}}
	for _, name := range []string{"root", "0", "0:0", "root:0"} {
		for uid, want := range map[uint32]uint32{0: nobody, 2_000_007: 2_000_007} {
			a, err := rules.Of(name, uid)
			if err != nil || !a.Root || a.UID != want || a.GID != want || a.Guest().UID != want {
				t.Errorf("%s of uid %d: %+v (%v)", name, uid, a, err)
			}
		}
	}
	if a, err := rules.Of("root:6", 0); fault.Of(err) != fault.Job {
		t.Errorf("in a group: %+v (%v)", a, err)
	}
	if a, err := rules.Of("root", 3_000_000); fault.Of(err) != fault.Machine {
		t.Errorf("of another range: %+v (%v)", a, err)
	}
	rules.AllowRoot = true
	if a, err := rules.Of("root", 0); err != nil || a.Root || a.UID != 0 {
		t.Errorf("on a node that permits root: %+v (%v)", a, err)
	}
	rules.AllowRoot, rules.Roots = false, nil
	if _, err := rules.Of("root", 0); fault.Of(err) != fault.Job {
		t.Errorf("of one without numbers: %v", err)
	}
}
