//go:build linux

package fork

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestNest checks that the memory of init contains code, stack and nest in rising order, and that its files are in
// rising order too.
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
		uintptr(unsafe.Pointer(unsafe.StringData("text")))} {
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

// deafTo returns the blocked signals of this thread.
func deafTo() (mask uint64) {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, 0, 0, uintptr(unsafe.Pointer(&mask)), 8, 0, 0)
	return mask
}

// TestStarterHearsAgain checks that a thread has its old signal mask after a fork or a failed fork. Its child has all
// signals blocked, so an early signal waits for the command.
func TestStarterHearsAgain(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := deafTo()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := forkHolder(pair[1])
	unix.Close(pair[1])
	if err != nil {
		t.Fatal(err)
	}
	if now := deafTo(); now != before {
		t.Errorf("after a fork its starter hears all but %#x, not %#x", now, before)
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil || !strings.Contains(string(status), "SigBlk:\tfffffffffffbfeff\n") { // all except KILL and STOP
		t.Errorf("the child hears signals: %v\n%s", err, status)
	}
	unix.Close(pair[0])
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Error(err)
	}

	n, err := newNest()
	if err != nil {
		t.Fatal(err)
	}
	defer n.free()
	if pid, err := n.forkHere(true); err != errMoved || deafTo() != before {
		t.Errorf("a fork without its stack: process %d, %v, deaf to %#x", pid, err, deafTo())
	}
	n.clone.flags = unix.CLONE_THREAD // the kernel accepts this only with other flags
	if pid, err := n.forkHere(false); err != unix.EINVAL || deafTo() != before {
		t.Errorf("a fork that the kernel refuses: process %d, %v, deaf to %#x", pid, err, deafTo())
	}
}

// marks lists the directives of a function that may run without Go's runtime.
var marks = []string{"//go:nosplit", "//go:noinline", "//go:norace", "//go:nocheckptr"}

// TestForkCallsNothing checks that code in a fork calls only functions with these marks, and system calls.
func TestForkCallsNothing(t *testing.T) {
	marked := markedFunctions(t)
	if _, there := marked["forkDeaf"]; !there || len(marked) < 30 {
		t.Fatalf("only %d functions are marked, or not the one that forks", len(marked))
	}
	plain := []string{"len", "byte", "uint", "uint16", "uint32", "uint64", "int32", "uintptr",
		"syscall.RawSyscall6", "unsafe.Pointer", "unsafe.Sizeof"}
	for name, function := range marked {
		ast.Inspect(function, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				called := calledBy(node)
				if _, there := marked[called]; !there && !slices.Contains(plain, called) {
					t.Errorf("%s calls %s, which may need what a fork does not have", name, called)
				}
			case *ast.GoStmt, *ast.DeferStmt, *ast.FuncLit, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s does with %T what needs Go's runtime", name, node)
			}
			return true
		})
	}
}

// markedFunctions returns the functions of this package that have any of the marks, and requires that they have all of
// them.
func markedFunctions(t *testing.T) map[string]*ast.FuncDecl {
	t.Helper()
	names, _ := filepath.Glob("*.go")
	marked := map[string]*ast.FuncDecl{}
	for _, name := range names {
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range parsed.Decls {
			function, is := declared.(*ast.FuncDecl)
			if !is || function.Doc == nil {
				continue
			}
			had := 0
			for _, line := range function.Doc.List {
				if slices.Contains(marks, line.Text) {
					had++
				}
			}
			if had > 0 {
				marked[function.Name.Name] = function
			}
			if had > 0 && had < len(marks) {
				t.Errorf("%s has %d of %v", function.Name.Name, had, marks)
			}
		}
	}
	return marked
}

// calledBy returns the name of the called function; of a method, only its own name.
func calledBy(call *ast.CallExpr) string {
	switch function := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		if from, is := function.X.(*ast.Ident); is && from.Name != "n" {
			return from.Name + "." + function.Sel.Name
		}
		return function.Sel.Name
	}
	return "something without a name"
}
