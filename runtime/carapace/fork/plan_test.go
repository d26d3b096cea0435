//go:build linux

package fork

import (
	"strings"
	"testing"
	"unsafe"
)

// textAt reads a string of a decoded plan.
func textAt(n *nest, at uintptr) string {
	text, _, _ := strings.Cut(string(bytesOf(&n.data[0], len(n.data))[at-uintptr(unsafe.Pointer(&n.data)):][:100]), "\x00")
	return text
}

// TestPlanStandsWhereItIsRead checks that a plan is encoded without its address, and that all its offsets become valid
// addresses.
func TestPlanStandsWhereItIsRead(t *testing.T) {
	n, err := newNest()
	if err != nil {
		t.Fatal(err)
	}
	defer n.free()
	plan := &Plan{Path: "/bin/sh", Workdir: "/tmp", Args: []string{"sh", "", "-c"}, Env: []string{"A=b"}}
	text, err := plan.lay()
	if err != nil {
		t.Fatal(err)
	}
	head := copy(bytesOf(&n.plan, 1), text)
	if rest := copy(bytesOf(&n.data[0], len(n.data)), text[head:]); uintptr(rest) != n.plan.length {
		t.Errorf("%d bytes of data are reported as %d", rest, n.plan.length)
	}
	landPlan(n)
	for at, want := range map[uintptr]string{n.plan.path: "/bin/sh", n.plan.workdir: "/tmp"} {
		if got := textAt(n, at); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	for at, want := range map[uintptr][]string{n.plan.argv: plan.Args, n.plan.env: plan.Env} {
		first := (at - uintptr(unsafe.Pointer(&n.data))) / unsafe.Sizeof(at)
		for i, want := range want {
			if got := textAt(n, n.data[first+uintptr(i)]); got != want {
				t.Errorf("word %d is %q, not %q", i, got, want)
			}
		}
		if end := n.data[first+uintptr(len(want))]; end != 0 || at%8 != 0 {
			t.Errorf("the words at %#x end with %#x", at, end)
		}
	}
	plan.Args = []string{strings.Repeat("x", maxPlanWords*8)}
	if _, err := plan.lay(); err != ErrTooLong {
		t.Errorf("too long a command: %v", err)
	}
}
