//go:build linux

// Package calls decides which system calls a task may make: as the filter that the kernel applies to Carapace's
// containers and to plain processes, and as the same filter for OCI runtimes.
//
// It is a list of what is allowed, taken from containerd's default profile (tools/callgen), so that nothing passes here
// that does not pass there. A call that the list does not know is refused with EPERM. One that is newer than the list
// is answered with ENOSYS, and so are clone3 and io_uring: a program falls back then, as it would on an older kernel.
package calls

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// call is a system call by its name and its number on this architecture.
type call struct {
	name   string
	number uint32
}

// newer are calls without which a program works too, as on a kernel that lacks them: clone3 hides its flags from
// filters, and io_uring makes calls that no filter sees.
var newer = []call{
	{"clone3", unix.SYS_CLONE3}, {"io_uring_setup", unix.SYS_IO_URING_SETUP}, {"io_uring_enter", unix.SYS_IO_URING_ENTER},
	{"io_uring_register", unix.SYS_IO_URING_REGISTER},
}

// byArgument are the calls that are allowed with some arguments only. Program and OCI have these checks.
var byArgument = []call{
	{"clone", unix.SYS_CLONE}, {"ioctl", unix.SYS_IOCTL}, {"personality", unix.SYS_PERSONALITY},
	{"socket", unix.SYS_SOCKET},
}

// newNamespaces are the flags of clone that make a namespace: a new user namespace gives its maker every capability
// inside, and with them most of the kernel to attack.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// Clone3 also lets a task fork by clone3, for a supervisor that puts its child into a group as it forks. The filter
// cannot see which namespaces clone3 makes.
const Clone3 = "clone3"

// without are the calls that are allowed with any arguments, to a task with these capabilities.
func without(capabilities []string) []call {
	list := slices.Clone(allowed)
	for _, c := range beside {
		brings := func(has string) bool { return slices.Contains(granted[strings.TrimPrefix(has, "CAP_")], c.name) }
		if slices.ContainsFunc(capabilities, brings) {
			list = append(list, c)
		}
	}
	if slices.Contains(capabilities, Clone3) {
		list = append(list, call{Clone3, unix.SYS_CLONE3})
	}
	return slices.DeleteFunc(list, func(c call) bool { return slices.Contains(byArgument, c) })
}

// OCI is the filter as an OCI runtime takes it, for a task with these capabilities ("SYS_CHROOT").
func OCI(capabilities []string) (*specs.LinuxSeccomp, error) {
	arch, known := map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}[runtime.GOARCH]
	if !known {
		return nil, fmt.Errorf("no filter for %s", runtime.GOARCH)
	}
	denied, absent := uint(unix.EPERM), uint(unix.ENOSYS)
	s := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &denied, Architectures: []specs.Arch{arch}}
	add := func(action specs.LinuxSeccompAction, errno *uint, args []specs.LinuxSeccompArg, names ...string) {
		s.Syscalls = append(s.Syscalls, specs.LinuxSyscall{Names: names, Action: action, ErrnoRet: errno, Args: args})
	}
	add(specs.ActAllow, nil, nil, names(without(capabilities))...)
	add(specs.ActErrno, &absent, nil, names(newer)...)
	only := func(name string, arg specs.LinuxSeccompArg) {
		add(specs.ActAllow, nil, []specs.LinuxSeccompArg{arg}, name)
	}
	for _, v := range domains {
		only("socket", specs.LinuxSeccompArg{Value: uint64(v), Op: specs.OpEqualTo})
	}
	for _, v := range personalities {
		only("personality", specs.LinuxSeccompArg{Value: uint64(v), Op: specs.OpEqualTo})
	}
	only("clone", specs.LinuxSeccompArg{Value: newNamespaces, Op: specs.OpMaskedEqual})
	only("ioctl", specs.LinuxSeccompArg{Index: 1, Value: unix.TIOCSTI, Op: specs.OpNotEqual})
	return s, nil
}

func names(list []call) []string {
	var all []string
	for _, c := range list {
		all = append(all, c.name)
	}
	return all
}
