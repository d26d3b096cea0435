//go:build linux

// Package calls decides which system calls a task may make. It provides a filter for Carapace's containers and plain
// processes, and the same filter for OCI runtimes.
//
// The filter is a list of permitted calls from containerd's default profile (tools/callgen). It therefore permits
// nothing that containerd does not permit. A call that is not on the list fails with EPERM. A call newer than the list
// fails with ENOSYS, and so do clone3 and io_uring. A program then falls back, as on an older kernel.
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

// newer lists calls that programs can do without, as on an old kernel. clone3 hides its flags from filters, and
// io_uring makes calls that no filter sees.
var newer = []call{
	{"clone3", unix.SYS_CLONE3}, {"io_uring_setup", unix.SYS_IO_URING_SETUP}, {"io_uring_enter", unix.SYS_IO_URING_ENTER},
	{"io_uring_register", unix.SYS_IO_URING_REGISTER},
}

// byArgument lists the calls that are permitted only with some arguments. Program and OCI contain these checks.
var byArgument = []call{
	{"clone", unix.SYS_CLONE}, {"ioctl", unix.SYS_IOCTL}, {"personality", unix.SYS_PERSONALITY},
	{"socket", unix.SYS_SOCKET},
}

// newNamespaces lists the flags of clone that make a namespace. A new user namespace gives its maker every capability
// inside it, which exposes much of the kernel to attacks.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// Clone3 also permits clone3, for a supervisor that creates its child in a cgroup. The filter cannot see which
// namespaces clone3 makes.
const Clone3 = "clone3"

// without returns the calls that a task with these capabilities may make with any arguments.
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

// OCI returns the filter in the format of OCI runtimes, for a task with these capabilities ("SYS_CHROOT").
func OCI(capabilities []string) (*specs.LinuxSeccomp, error) {
	arch, known := map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}[runtime.GOARCH]
	if !known {
		return nil, fmt.Errorf("no system call filter for the architecture %s", runtime.GOARCH)
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

// Name returns the name of the system call with a number, or an empty string if the list does not have it.
func Name(number uint32) string {
	for _, list := range [][]call{allowed, newer, byArgument} {
		if i := slices.IndexFunc(list, func(c call) bool { return c.number == number }); i >= 0 {
			return list[i].name
		}
	}
	return ""
}
