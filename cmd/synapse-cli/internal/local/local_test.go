//go:build linux

package local

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
)

func TestPortRanges(t *testing.T) {
	for _, nodes := range []int{1, 2, 7, 109, 110, 111, MaxNodes} {
		last := firstPort - 1
		for i, r := range portRanges(nodes) {
			var a, b int
			if n, err := fmt.Sscanf(r, "%d-%d", &a, &b); n != 2 || err != nil || a <= last || b < a+20 || b > lastPort {
				t.Fatalf("%d nodes: range %d is %q behind %d: %v", nodes, i, r, last, err)
			}
			last = b
		}
	}
}

// TestAddresses checks that each node has its own loopback address, that the addresses depend only on the folder,
// and that a program can listen on each.
func TestAddresses(t *testing.T) {
	for i := range 500 {
		dir := fmt.Sprintf("/tmp/synapse-up-%d", i)
		seen := map[string]bool{}
		for node := range MaxNodes {
			address := addressOf(dir, node)
			ip, err := netip.ParseAddr(address)
			if err != nil || !ip.IsLoopback() || address == "127.0.0.1" || seen[address] || addressOf(dir, node) != address {
				t.Fatalf("node %d of %s has %q: %v", node, dir, address, err)
			}
			seen[address] = true
		}
	}
	if addressOf("/a", 0) == addressOf("/b", 0) {
		t.Error("two clusters share addresses")
	}
	for _, node := range []int{0, MaxNodes - 1} {
		listener, err := net.Listen("tcp", net.JoinHostPort(addressOf("/a", node), "0"))
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
	}
}

// TestRacks checks that the racks' sizes differ by at most one, and that neighbours share a rack.
func TestRacks(t *testing.T) {
	for nodes := 1; nodes < 30; nodes++ {
		for racks := 1; racks <= nodes; racks++ {
			count := make([]int, racks)
			last := 0
			for i := range nodes {
				r := rackOf(i, nodes, racks)
				if r < last || r > last+1 {
					t.Fatalf("node %d of %d is in rack %d behind one in %d", i, nodes, r, last)
				}
				last = r
				count[r]++
			}
			for _, n := range count {
				if n < nodes/racks || n > (nodes+racks-1)/racks {
					t.Fatalf("%d nodes in %d racks: %v", nodes, racks, count)
				}
			}
		}
	}
}

func TestOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	log, err := logFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	o := &output{name: "n1", log: log, terminal: &terminal{w: &shown, width: 4}}
	for _, piece := range []string{"a", "b\nc\r\n", "", "d", strings.Repeat("x", maxLine+10), "\n\nlast"} {
		if n, err := o.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	o.flush()
	lines := strings.Split(shown.String(), "\n")
	if lines[0] != "n1   | ab" || lines[1] != "n1   | c" || len(lines[2]) < maxLine ||
		lines[len(lines)-2] != "n1   | last" {
		t.Errorf("%q … %q", lines[:2], lines[len(lines)-3:])
	}
	for i := range 50 {
		o.line(fmt.Sprint(i))
	}
	if tail := o.tail(); len(tail) != lastLines || tail[lastLines-1] != "49" {
		t.Errorf("%q", tail)
	}
}
