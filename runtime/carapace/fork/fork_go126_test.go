//go:build linux && go1.26 && !go1.27 && !reexec

package fork

import (
	"os"
	"slices"
	"testing"
	"unsafe"
)

// TestNest: what init keeps of its starter's memory has code, stack and nest in it, and rises; what it keeps of the
// files too.
func TestNest(t *testing.T) {
	n, err := newNest()
	if err != nil {
		t.Fatal(err)
	}
	defer n.free()
	var here uintptr
	stack := uintptr(unsafe.Pointer(&here))
	n.seeMemory(stack)
	end := uintptr(unsafe.Pointer(n)) + unsafe.Sizeof(*n) - 1
	for _, address := range []uintptr{stack, uintptr(unsafe.Pointer(n)), end,
		uintptr(unsafe.Pointer(unsafe.StringData(Way)))} {
		if !slices.ContainsFunc(n.views[:], func(view [2]uintptr) bool { return view[0] <= address && address < view[1] }) {
			t.Errorf("%#x is in none of %#x", address, n.views)
		}
	}
	if !slices.IsSortedFunc(n.views[:], func(a, b [2]uintptr) int { return int(int64(a[0]) - int64(b[0])) }) {
		t.Errorf("%#x do not rise", n.views)
	}
	for page, offset := uintptr(os.Getpagesize()), uintptr(0); offset < page; offset += 8 {
		n.seeMemory(stack&^(page-1) + offset)
		if at := stack&^(page-1) + offset - minStackBytes/8; !n.sees(at) || n.sees(at-2*page) || n.sees(at+3*page) {
			t.Fatalf("around a stack at %d of its page, init would have %#x", offset, n.views)
		}
	}
	n.keep(9, 0, 3, 2, 9, 0)
	if !slices.Equal(n.kept[:n.keptN], []uintptr{3, 9}) {
		t.Errorf("kept are %v", n.kept[:n.keptN])
	}
}
