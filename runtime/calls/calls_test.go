//go:build linux

package calls

import (
	"runtime"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// answer interprets a program as the kernel would, for one call.
func answer(t *testing.T, program []unix.SockFilter, number uint32, args ...uint64) uint32 {
	t.Helper()
	words := map[uint32]uint32{offsetNumber: number, offsetArch: architectures[runtime.GOARCH]}
	for i := range 6 {
		words[offsetArgs+uint32(i)*8], words[offsetArgs+uint32(i)*8+4] = 0, 0
		if i < len(args) {
			words[offsetArgs+uint32(i)*8], words[offsetArgs+uint32(i)*8+4] = uint32(args[i]), uint32(args[i]>>32)
		}
	}
	a := uint32(0)
	for pc := 0; pc < len(program); pc++ {
		holds := false
		switch f := program[pc]; f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = words[f.K]
			continue
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			holds = a == f.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			holds = a >= f.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			holds = a&f.K != 0
		default:
			t.Fatalf("an instruction of an unknown kind: %v", f)
		}
		if holds {
			pc += int(program[pc].Jt)
		} else {
			pc += int(program[pc].Jf)
		}
	}
	t.Fatal("the program has no end")
	return 0
}

const (
	passes = uint32(unix.SECCOMP_RET_ALLOW)
	denied = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	gone   = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// TestProgram checks that the kernel's program answers for every number as in the table.
func TestProgram(t *testing.T) {
	for _, with := range [][]string{nil, {"CAP_SYS_CHROOT"}, {"SYS_NICE", "SYS_TIME"}, {Clone3}} {
		program, err := Program(with)
		if err != nil {
			t.Fatal(err)
		}
		list := without(with)
		last := slices.MaxFunc(slices.Concat(list, newer), func(a, b call) int { return int(a.number) - int(b.number) }).
			number
		for number := range uint32(1 << 12) {
			same := func(c call) bool { return c.number == number }
			want := denied
			switch {
			case slices.ContainsFunc(list, same):
				want = passes
			case slices.ContainsFunc(newer, same), number > last:
				want = gone
			case slices.ContainsFunc(byArgument, same):
				continue
			}
			if got := answer(t, program, number); got != want {
				t.Errorf("with %q call %d is answered %#x, not %#x", with, number, got, want)
			}
		}
	}
}

// TestArguments checks the calls that are permitted only with some arguments.
func TestArguments(t *testing.T) {
	program, err := Program(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		number uint32
		args   []uint64
		want   uint32
	}{
		{unix.SYS_SOCKET, []uint64{unix.AF_UNIX}, passes},
		{unix.SYS_SOCKET, []uint64{unix.AF_INET6}, passes},
		{unix.SYS_SOCKET, []uint64{unix.AF_NETLINK}, passes},
		{unix.SYS_SOCKET, []uint64{unix.AF_VSOCK}, denied},
		{unix.SYS_SOCKET, []uint64{unix.AF_ALG}, denied},
		{unix.SYS_SOCKET, []uint64{1 << 20}, denied},
		{unix.SYS_SOCKET, []uint64{unix.AF_VSOCK | 1<<32}, denied},
		{unix.SYS_SOCKET, []uint64{unix.AF_UNIX | 1<<32}, denied},
		{unix.SYS_PERSONALITY, []uint64{0}, passes},
		{unix.SYS_PERSONALITY, []uint64{0xffffffff}, passes},
		{unix.SYS_PERSONALITY, []uint64{0x0040000}, denied}, // addresses that are not random
		{unix.SYS_PERSONALITY, []uint64{0x0400000}, denied}, // readable memory is executable
		{unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, passes},
		{unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, denied},
		{unix.SYS_CLONE, []uint64{unix.CLONE_NEWNET | unix.CLONE_VM}, denied},
		{unix.SYS_CLONE, []uint64{unix.CLONE_NEWCGROUP}, denied},
		{unix.SYS_IOCTL, []uint64{0, unix.TCGETS}, passes},
		{unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, denied},
		{unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI | 1<<32}, denied}, // the kernel checks only the low half
		{unix.SYS_CLONE3, nil, gone},
		{unix.SYS_IO_URING_SETUP, nil, gone},
		{unix.SYS_OPEN_TREE_ATTR, nil, denied},
		{unix.SYS_UNSHARE, nil, denied},
		{unix.SYS_BPF, nil, denied},
		{unix.SYS_MBIND, nil, denied},
		{unix.SYS_PTRACE, nil, passes},
		{unix.SYS_READ, nil, passes},
	} {
		if got := answer(t, program, c.number, c.args...); got != c.want &&
			(c.number != unix.SYS_OPEN_TREE_ATTR || got == passes) {
			t.Errorf("call %d%#x is answered %#x, not %#x", c.number, c.args, got, c.want)
		}
	}
}

// TestForeignCalls checks that another architecture's calls are refused, and that x32 calls are absent.
func TestForeignCalls(t *testing.T) {
	program, err := Program(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(program) > 4096 {
		t.Errorf("%d instructions, and the kernel takes 4096", len(program))
	}
	t.Logf("%d instructions for %d calls", len(program), len(allowed))
	if runtime.GOARCH == "amd64" {
		if got := answer(t, program, x32Bit|unix.SYS_READ); got != gone {
			t.Errorf("a call of x32 is answered %#x", got)
		}
	}
	program[1].K++ // as if the kernel reported another one
	if got := answer(t, program, unix.SYS_READ); got != denied {
		t.Errorf("another architecture's call is answered %#x", got)
	}
}

// TestOCI checks that the runtimes get the same filter.
func TestOCI(t *testing.T) {
	s, err := OCI([]string{"CAP_SYS_CHROOT"})
	if err != nil {
		t.Fatal(err)
	}
	if s.DefaultAction != specs.ActErrno || *s.DefaultErrnoRet != uint(unix.EPERM) {
		t.Errorf("what is not listed: %v", s.DefaultAction)
	}
	free := map[string]bool{}
	for _, rule := range s.Syscalls {
		for _, name := range rule.Names {
			if rule.Action == specs.ActAllow && len(rule.Args) == 0 {
				free[name] = true
			}
		}
	}
	for _, name := range []string{
		"socket", "personality", "clone", "clone3", "ioctl", "io_uring_setup", "mount", "bpf", "unshare", "mbind",
	} {
		if free[name] {
			t.Errorf("%s is allowed whatever its arguments are", name)
		}
	}
	if !free["read"] || !free["chroot"] {
		t.Error("what is allowed is not")
	}
}
