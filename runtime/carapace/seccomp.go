//go:build linux

// The system call filter of a task: a classic BPF program, assembled here. It is a list of what is denied, not of what is
// allowed: capabilities and namespaces are the wall, and a list of some 350 allowed calls would break a training framework
// with every new kernel. What is denied is what no task needs and kernels were broken with.
package carapace

import (
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// deniedCalls are refused with EPERM: they want capabilities that a task does not have, or reach into other processes'
// kernel objects. Not here, on purpose: ptrace and process_vm_readv (debuggers and MPI use them, within the container's
// own processes), mbind and its like (NUMA placement beside a GPU), and mlock.
var deniedCalls = []uint32{
	unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_BPF, unix.SYS_CLOCK_ADJTIME, unix.SYS_CLOCK_SETTIME, unix.SYS_DELETE_MODULE,
	unix.SYS_FINIT_MODULE, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSOPEN, unix.SYS_FSPICK, unix.SYS_INIT_MODULE,
	unix.SYS_KCMP, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD, unix.SYS_KEYCTL, unix.SYS_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_MOVE_MOUNT, unix.SYS_NFSSERVCTL, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_OPEN_TREE, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_PIVOT_ROOT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_REBOOT, unix.SYS_REQUEST_KEY, unix.SYS_SETNS,
	unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF, unix.SYS_SWAPON, unix.SYS_SYSLOG, unix.SYS_UMOUNT2, unix.SYS_USERFAULTFD,
	unix.SYS_VHANGUP,
}

// absentCalls are answered with ENOSYS, so that a program that can do without falls back as it would on an older kernel.
var absentCalls = []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// architectures are the AUDIT_ARCH numbers of what we build for.
var architectures = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64,
	"ppc64le": unix.AUDIT_ARCH_PPC64LE, "s390x": unix.AUDIT_ARCH_S390X, "loong64": unix.AUDIT_ARCH_LOONGARCH64,
}

const (
	seccompNumber = 0  // offset of the call's number in struct seccomp_data
	seccompArch   = 4  // of the architecture
	seccompArg0   = 16 // of the first argument's low half on a little-endian machine
	x32Bit        = 0x40000000
	ttyInject     = unix.TIOCSTI
)

// seccompFilter answers the program for this architecture. Another architecture's calls (32-bit ones on a 64-bit kernel)
// are refused as a whole: their numbers mean other things.
func seccompFilter() ([]unix.SockFilter, error) {
	arch, known := architectures[runtime.GOARCH]
	if !known {
		return nil, fmt.Errorf("no filter for %s", runtime.GOARCH)
	}
	arg0, arg1 := uint32(seccompArg0), uint32(seccompArg0+8)
	if runtime.GOARCH == "s390x" {
		arg0, arg1 = arg0+4, arg1+4
	}
	refuse := func(errno unix.Errno) unix.SockFilter {
		return stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(errno))
	}
	load := func(offset uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
	equal := func(value uint32, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: no, K: value}
	}
	program := []unix.SockFilter{load(seccompArch), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: arch}, refuse(unix.EPERM), load(seccompNumber)}
	if runtime.GOARCH == "amd64" {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: x32Bit}, refuse(unix.ENOSYS))
	}
	// A new user namespace gives its maker every capability inside, and with them most of the kernel to attack. clone3
	// hides its flags from filters; the task's chroot makes the kernel refuse that one (see root.go).
	for _, call := range []uint32{unix.SYS_UNSHARE, unix.SYS_CLONE} {
		flags := arg0
		if call == unix.SYS_CLONE && runtime.GOARCH == "s390x" {
			flags = arg1
		}
		program = append(program, equal(call, 4), load(flags),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: unix.CLONE_NEWUSER},
			refuse(unix.EPERM), stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW))
	}
	// Typing into the terminal of who started us.
	program = append(program, equal(unix.SYS_IOCTL, 4), load(arg1), equal(ttyInject, 1), refuse(unix.EPERM),
		stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW))
	for _, call := range slices.Concat(deniedCalls, privateCalls) {
		program = append(program, equal(call, 1), refuse(unix.EPERM))
	}
	for _, call := range absentCalls {
		program = append(program, equal(call, 1), refuse(unix.ENOSYS))
	}
	return append(program, stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)), nil
}

func stmt(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
