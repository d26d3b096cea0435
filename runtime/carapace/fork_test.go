//go:build linux

package carapace

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestEveryStepIsTold: whatever step a fork fails in, its caller hears which one, and the kernel's reason.
func TestEveryStepIsTold(t *testing.T) {
	spec := good()
	spec.Rlimits = []Rlimit{{"nofile", 1, 2}}
	for step := range stepExec + 1 {
		failure := explain(record{kind: recordFailed, step: step, value: uint64(unix.EIO)}, &spec, []string{"/group/tasks"})
		if failure.Step == "" || failure.Code < CodeSetupFailed || failure.Code > CodeNotFound || !errors.Is(failure, unix.EIO) ||
			step != stepBinary && !strings.Contains(failure.Reason, unix.EIO.Error()) {
			t.Errorf("step %d: %+v", step, failure)
		}
	}
	for errno, code := range map[unix.Errno]int{unix.ENOENT: 127, unix.EACCES: 126, unix.ENOEXEC: 126, unix.ELIBBAD: 126, unix.E2BIG: 125, unix.ENOMEM: 125} {
		if failure := explain(record{step: stepExec, value: uint64(errno)}, &spec, nil); failure.Code != code {
			t.Errorf("%v is told as %d", errno, failure.Code)
		}
	}
}

// textAt reads a string of a plan at the address that init would find it at.
func textAt(p *planner, at uintptr) string {
	text, _, _ := strings.Cut(string(p.data[at-p.base:]), "\x00")
	return text
}

func TestPlanStandsWhereInitReadsIt(t *testing.T) {
	p := &planner{base: 0x10000}
	path, argv := p.text("/bin/sh"), p.texts([]string{"sh", "", "-c"})
	if textAt(p, path) != "/bin/sh" {
		t.Errorf("the path is %q", textAt(p, path))
	}
	words := unsafe.Slice((*uintptr)(unsafe.Pointer(&p.data[argv-p.base])), 4)
	for i, want := range []string{"sh", "", "-c"} {
		if got := textAt(p, words[i]); got != want {
			t.Errorf("word %d is %q", i, got)
		}
	}
	if words[3] != 0 || argv%8 != 0 {
		t.Errorf("the words end with %d, and lie at %#x", words[3], argv)
	}
}

// TestPlanOfLimits: the last one of a name counts, and the one of the user's processes waits until the user was changed.
func TestPlanOfLimits(t *testing.T) {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &now); err != nil {
		t.Fatal(err)
	}
	p := &planner{}
	if err := p.limit([]Rlimit{{"core", 1, 1}, {"nproc", 3, 4}, {"core", 0, -1}}, false); err != nil {
		t.Fatal(err)
	}
	if p.plan.limitsN != 1 || p.plan.limits[0] != (selfLimit{unix.RLIMIT_CORE, 0, unix.RLIM_INFINITY, 2}) {
		t.Errorf("at first: %+v", p.plan.limits[:p.plan.limitsN])
	}
	if p.plan.lateN != 1 || p.plan.late != (selfLimit{unix.RLIMIT_NPROC, 3, 4, 1}) {
		t.Errorf("late: %+v", p.plan.late)
	}
	p = &planner{}
	if err := p.limit([]Rlimit{{"nproc", 3, 4}}, true); err != nil || p.plan.lateN != 0 || p.plan.limitsN != 1 {
		t.Errorf("without a change of user: %+v, %+v (%v)", p.plan.limits[0], p.plan.late, err)
	}
	if now.Max != unix.RLIM_INFINITY {
		p = &planner{}
		if err := p.limit([]Rlimit{{"nproc", 3, -1}}, false); err != nil || p.plan.lateN != 1 || p.plan.limitsN != 1 || p.plan.limits[0].soft != unix.RLIM_INFINITY {
			t.Errorf("raised: %+v, then %+v (%v)", p.plan.limits[0], p.plan.late, err)
		}
	}
}

// TestNest: what init keeps of its starter's memory has code, stack and nest in it, and rises; what it keeps of the files too.
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
	for _, address := range []uintptr{stack, uintptr(unsafe.Pointer(n)), end, uintptr(unsafe.Pointer(unsafe.StringData(detourName)))} {
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

// TestOwnThreadIsNotTheMainOne, which could not end, and whose namespaces /proc/self shows.
func TestOwnThreadIsNotTheMainOne(t *testing.T) {
	done := make(chan int)
	for range 100 {
		onOwnThread(func() { done <- unix.Gettid() })
		if <-done == os.Getpid() {
			t.Fatal("it is the main thread")
		}
	}
}
