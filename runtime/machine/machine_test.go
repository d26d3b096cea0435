package machine

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestIdentity checks that the node's id is made once, that each start has a later incarnation, and that only one agent
// can use the directory.
func TestIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, errInUse) {
		t.Errorf("a second agent: %v", err)
	}
	first.Close()
	second, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if first.NodeID() != second.NodeID() || len(first.NodeID()) != 36 || first.MachineID() != second.MachineID() ||
		first.BootID() != second.BootID() {
		t.Errorf("%+v and %+v", first, second)
	}
	if a, b := first.Incarnation(), second.Incarnation(); a.StartedNs >= b.StartedNs || a.BootId != b.BootId {
		t.Errorf("%v and %v", a, b)
	}
}

// TestLater checks that within one boot, a start is later than the previous one even if the clock is not.
func TestLater(t *testing.T) {
	dir := t.TempDir()
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	boot := m.BootID()
	m.Close()
	future := int64(math.MaxInt64 / 2)
	if err := keep(filepath.Join(dir, startsName), boot+" 4611686018427387903\n"); err != nil {
		t.Fatal(err)
	}
	if m, err = Open(dir); err != nil || m.Incarnation().StartedNs != future+1 {
		t.Fatal(m, err)
	}
	m.Close()
	if err := keep(filepath.Join(dir, startsName), "another-boot 4611686018427387903\n"); err != nil {
		t.Fatal(err)
	}
	if m, err = Open(dir); err != nil || m.Incarnation().StartedNs > future {
		t.Fatal(m, err)
	}
	m.Close()
}

// TestTornName checks that an id torn by a power failure is made again, because it was never sent.
func TestTornName(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, nodeName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir)
	if err != nil || m.NodeID() == "" {
		t.Fatal(m, err)
	}
	m.Close()
}

// TestCapacity checks that this host has some capacity.
func TestCapacity(t *testing.T) {
	c, err := Capacity()
	if err != nil || c.MilliCpu <= 0 || c.MemoryBytes <= 0 {
		t.Error(c, err)
	}
}

// TestLimits checks that every cgroup above the agent limits the capacity, in each version.
func TestLimits(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("v2/a/cpu.max", "150000 100000\n")
	write("v2/a/b/cpu.max", "max 100000\n")
	write("v2/a/b/memory.max", "1073741824\n")
	write("v2/a/memory.max", "max\n")
	write("v1cpu/x/cpu.cfs_quota_us", "50000\n")
	write("v1cpu/x/cpu.cfs_period_us", "100000\n")
	write("v1mem/memory.limit_in_bytes", "536870912\n")
	write("unified", "0::/a/b\n")
	write("old", "4:memory:/docker/1\n3:cpu,cpuacct:/x\n")
	write("mounts", "30 1 0:26 / "+root+"/v2 rw - cgroup2 cgroup2 rw\n"+
		"31 1 0:27 / "+root+"/v1cpu rw - cgroup cgroup rw,cpu,cpuacct\n"+
		"32 1 0:28 /docker/1 "+root+"/v1mem rw - cgroup cgroup rw,memory\n")
	mounts := filepath.Join(root, "mounts")
	if l := ownLimits(filepath.Join(root, "unified"), mounts); l.milliCPU != 1500 || l.memory != 1<<30 {
		t.Error(l)
	}
	if l := ownLimits(filepath.Join(root, "old"), mounts); l.milliCPU != 500 || l.memory != 512<<20 {
		t.Error(l)
	}
	if l := ownLimits(filepath.Join(root, "none"), mounts); l.milliCPU != math.MaxInt64 || l.memory != math.MaxInt64 {
		t.Error(l)
	}
}

// TestPorts checks that the range exists, and does not overlap the kernel's range.
func TestPorts(t *testing.T) {
	first, last, err := Ports(0, 0)
	if err != nil || first < 1024 || last-first+1 != defaultPorts {
		t.Error(first, last, err)
	}
	low, high := ephemeralPorts("/proc/sys/net/ipv4/ip_local_port_range")
	if int(first) <= high && low <= int(last) {
		t.Error(first, last, low, high)
	}
	for _, c := range [][2]int{{low, 10}, {65000, 10_000}, {-5, 10}, {5000, -1}} {
		if _, _, err := Ports(c[0], c[1]); err == nil {
			t.Error(c)
		}
	}
}

// TestAdvertise checks that the address for loopback is loopback, and that an address without a route is an error.
func TestAdvertise(t *testing.T) {
	if a, err := Advertise("127.0.0.1:9000"); a != "127.0.0.1" || err != nil {
		t.Error(a, err)
	}
	if a, err := Advertise(""); a == "" || err != nil {
		t.Error(a, err)
	}
}

// TestCores checks that a quota limits the cores of a node, with a minimum of one.
func TestCores(t *testing.T) {
	for _, c := range []struct {
		cores       int
		quota, want int64
	}{
		{2, math.MaxInt64, 2000}, {2, 2000, 2000}, {2, 1999, 1999}, {4, 1001, 1001}, {4, 1000, 1000}, {4, 999, 1000},
		{2, 500, 1000}, {1, 1, 1000}, {1, 2500, 1000},
	} {
		if got := milliCPU(c.cores, c.quota); got != c.want {
			t.Errorf("%d cores with a quota of %d: %d, want %d", c.cores, c.quota, got, c.want)
		}
	}
}
