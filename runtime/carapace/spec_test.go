//go:build linux

package carapace

import (
	"encoding/json"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func good() Spec { return Spec{ID: "a", Rootfs: "/r", Command: []string{"true"}} }

func TestValidateNamesTheField(t *testing.T) {
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Spec){
		"id":                 func(s *Spec) { s.ID = "../a" },
		"rootfs":             func(s *Spec) { s.Rootfs = "relative" },
		"command":            func(s *Spec) { s.Command = nil },
		"command[1]":         func(s *Spec) { s.Command = []string{"a", "b\x00c"} },
		"env[0]":             func(s *Spec) { s.Env = []string{"=x"} },
		"workdir":            func(s *Spec) { s.Workdir = "x" },
		"scratch":            func(s *Spec) { s.Scratch = "x" },
		"layer":              func(s *Spec) { s.Rootfs, s.Layer = "host", "/l" },
		"user":               func(s *Spec) { s.User = "a:b:c" },
		"hostname":           func(s *Spec) { s.Hostname = "-x" },
		"net":                func(s *Spec) { s.Net = "bridge" },
		"seccomp":            func(s *Spec) { s.Seccomp = "none" },
		"mounts[0].source":   func(s *Spec) { s.Mounts = []Mount{{Target: "/x"}} },
		"mounts[0].target":   func(s *Spec) { s.Mounts = []Mount{{Source: "/x", Target: "/x/.."}} },
		"hide[0]":            func(s *Spec) { s.Hide = []string{"x"} },
		"devices[0]":         func(s *Spec) { s.Devices = []string{"/dev/../etc/passwd"} },
		"capAdd[0]":          func(s *Spec) { s.CapAdd = []string{"EVERYTHING"} },
		"capDrop[0]":         func(s *Spec) { s.CapDrop = []string{""} },
		"shmBytes":           func(s *Spec) { s.ShmBytes = -1 },
		"rlimits[0]":         func(s *Spec) { s.Rlimits = []Rlimit{{"nofile", 5, 4}} },
		"limits.memoryBytes": func(s *Spec) { s.Limits.MemoryBytes = 1000 },
		"limits.milliCPU":    func(s *Spec) { s.Limits.MilliCPU = 5 },
		"limits.pids":        func(s *Spec) { s.Limits.Pids = -1 },
		"limits.cpuset":      func(s *Spec) { s.Limits.Cpuset = "3-1" },
		"limits.cpusetMems":  func(s *Spec) { s.Limits.CpusetMems = "0,,1" },
	} {
		spec := good()
		spoil(&spec)
		var wrong *SpecError
		if err := spec.Validate(); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: refused as %v", field, err)
		}
	}
}

// FuzzValidate checks that no spec makes validation panic, and that the names in an accepted spec are safe as one path
// element.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{`{}`, `{"id":"a","rootfs":"host","command":["x"],"user":"a:b","limits":{"cpuset":"0-3"}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var spec Spec
		if json.Unmarshal([]byte(text), &spec) != nil || spec.Validate() != nil {
			return
		}
		filled := spec.filled()
		if filled.Validate() != nil {
			t.Errorf("%+v is good, but not with its defaults", spec)
		}
		if spec.ID != "" && (filepath.Base(spec.ID) != spec.ID || spec.ID == "." || spec.ID == "..") {
			t.Errorf("id %q leads elsewhere", spec.ID)
		}
	})
}

// TestUnifiedSettings checks the values written into a group of cgroup v2, with plain files instead of the group.
func TestUnifiedSettings(t *testing.T) {
	leaf := t.TempDir()
	for _, name := range []string{
		"memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max", "cpuset.cpus", "cpuset.mems",
	} {
		if err := os.WriteFile(filepath.Join(leaf, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec := good()
	spec.Limits = Limits{MemoryBytes: 64 << 20, Pids: 9, MilliCPU: 1500, Cpuset: "0-1", CpusetMems: "0"}
	g := &cgroup{
		unified: true, leaves: map[string]string{"": leaf}, controllers: []string{"memory", "pids", "cpu", "cpuset"},
	}
	g.limitV2(spec, wants(spec))
	for name, want := range map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1",
		"pids.max": "9",
		"cpu.max":  "150000 100000", "cpuset.cpus": "0-1", "cpuset.mems": "0"} {
		if got, err := os.ReadFile(filepath.Join(leaf, name)); string(got) != want {
			t.Errorf("%s: %q, not %q (%v)", name, got, want, err)
		}
	}
	if len(g.unenforced) > 0 {
		t.Errorf("unenforced: %q", g.unenforced)
	}
	g.controllers = []string{"memory"}
	g.limitV2(spec, wants(spec))
	if text := strings.Join(g.unenforced, "; "); strings.Contains(text, "memory") ||
		strings.Count(text, "not delegated") != 3 {
		t.Errorf("with memory alone: %q", g.unenforced)
	}
}

// TestDelegation checks that each group from the root down delegates exactly the missing controllers.
func TestDelegation(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "a", "b")
	leaf := filepath.Join(folder, "leaf")
	if err := os.MkdirAll(leaf, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{root, filepath.Join(root, "a"), folder} {
		if err := os.WriteFile(filepath.Join(place, "cgroup.subtree_control"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.controllers"), []byte("memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &cgroup{unified: true, leaves: map[string]string{"": leaf}}
	g.delegate(root, folder, map[string]string{"memory": "", "pids": ""})
	for _, place := range []string{root, filepath.Join(root, "a"), folder} {
		if got, _ := os.ReadFile(filepath.Join(place, "cgroup.subtree_control")); string(got) != "+pids" {
			t.Errorf("%s got %q", place, got)
		}
	}
	if !slices.Equal(g.controllers, []string{"memory"}) {
		t.Errorf("controllers %q", g.controllers)
	}
}

// TestHostileAccounts checks account files with any content, because they come from an image.
func TestHostileAccounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwd")
	for text, want := range map[string]int{
		"":                             0,
		"a:b\n:::::::::\n\x00\n":       0,
		"x:x:1:1::/:/bin/sh\n":         1,
		strings.Repeat("y", 5<<20):     0,
		"a:x:1:1::/:/a\nb:x:2:2::/:/b": 2,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := 0
		// A line beyond the limit may be reported or not; it must not hang.
		_ = eachEntry(file, 7, func([]string) bool { got++; return true })
		if got != want {
			t.Errorf("%.30q has %d entries, not %d", text, got, want)
		}
	}
	if err := eachEntry(filepath.Dir(file), 7, func([]string) bool {
		t.Error("a directory has entries")
		return true
	}); err != nil {
		t.Error(err)
	}
	if err := eachEntry("/dev/zero", 7, func([]string) bool { t.Error("a device has entries"); return true }); err != nil {
		t.Error(err)
	}
}

func TestCapabilitySets(t *testing.T) {
	for _, c := range []struct {
		add, drop []string
		kept      int
		added     int
	}{
		{nil, nil, 9, 0},
		{[]string{"ALL"}, nil, len(capabilityNames), len(capabilityNames)},
		{nil, []string{"all"}, 0, 0},
		{[]string{"cap_kill"}, []string{"ALL"}, 1, 1},
		{[]string{"NET_RAW"}, []string{"CHOWN"}, 9, 1},
		{[]string{"NET_RAW"}, []string{"NET_RAW"}, 9, 0},
	} {
		kept, added := capabilities(c.add, c.drop)
		if bits.OnesCount64(uint64(kept)) != c.kept || bits.OnesCount64(uint64(added)) != c.added {
			t.Errorf("add %v drop %v: %b kept, %b added", c.add, c.drop, kept, added)
		}
	}
}
