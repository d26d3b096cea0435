//go:build linux

package calls

// This file builds the filter in the kernel's format, a classic BPF program.

import (
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	offsetNumber = 0  // of the call's number in struct seccomp_data
	offsetArch   = 4  // of the architecture
	offsetArgs   = 16 // of the first argument's low half on a little-endian host; its high half follows
	x32Bit       = 0x40000000
)

// architectures maps the architectures with a table to their AUDIT_ARCH numbers.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

var (
	allow  = stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
	refuse = stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))
	absent = stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS))
)

func stmt(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func load(offset uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }

// jump skips holds instructions if the test is true, and fails instructions otherwise.
func jump(test uint16, k uint32, holds, fails int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: uint8(holds), Jf: uint8(fails), K: k}
}

// Program returns the filter for a task with these capabilities ("SYS_CHROOT", or Clone3), on this architecture. Calls
// of another architecture (32-bit calls on a 64-bit kernel) are all refused, because their numbers have other meanings.
func Program(capabilities []string) ([]unix.SockFilter, error) {
	arch, known := architectures[runtime.GOARCH]
	if !known {
		return nil, fmt.Errorf("no system call filter for the architecture %s", runtime.GOARCH)
	}
	program := []unix.SockFilter{load(offsetArch), jump(unix.BPF_JEQ, arch, 1, 0), refuse, load(offsetNumber)}
	if runtime.GOARCH == "amd64" {
		program = append(program, jump(unix.BPF_JGE, x32Bit, 0, 1), absent)
	}
	for _, some := range []struct {
		number uint32
		checks []unix.SockFilter
	}{
		// No task may insert input into the terminal from which it was started.
		{unix.SYS_IOCTL, []unix.SockFilter{load(offsetArgs + 8), jump(unix.BPF_JEQ, unix.TIOCSTI, 0, 1), refuse,
			allow}},
		{unix.SYS_CLONE, []unix.SockFilter{load(offsetArgs), jump(unix.BPF_JSET, newNamespaces, 0, 1), refuse, allow}},
		{unix.SYS_SOCKET, oneOf(domains)},
		{unix.SYS_PERSONALITY, oneOf(personalities)},
	} {
		program = append(program, jump(unix.BPF_JEQ, some.number, 0, len(some.checks)))
		program = append(program, some.checks...)
	}
	return append(program, search(bounds(without(capabilities)))...), nil
}

// oneOf permits a call if its first argument is one of the values. The kernel may ignore the high half of the argument,
// so the high half must be zero.
func oneOf(values []uint32) []unix.SockFilter {
	checks := []unix.SockFilter{load(offsetArgs + 4), jump(unix.BPF_JEQ, 0, 1, 0), refuse, load(offsetArgs)}
	for i, v := range values {
		checks = append(checks, jump(unix.BPF_JEQ, v, len(values)-i, 0)) // skips the refusal
	}
	return append(checks, refuse, allow)
}

// bound is the first number of a range of calls with the same answer.
type bound struct {
	from   uint32
	answer unix.SockFilter
}

// bounds returns the answers for all numbers. The listed calls are permitted. Calls newer than the whole list are
// absent.
func bounds(list []call) []bound {
	answers := map[uint32]unix.SockFilter{}
	last := uint32(0)
	for _, c := range slices.Concat(list, newer) {
		answers[c.number] = allow
		last = max(last, c.number)
	}
	for _, c := range newer {
		if !slices.Contains(list, c) {
			answers[c.number] = absent
		}
	}
	var all []bound
	for number := uint32(0); number <= last+1; number++ {
		answer, listed := answers[number]
		switch {
		case number > last:
			answer = absent
		case !listed:
			answer = refuse
		}
		if len(all) == 0 || all[len(all)-1].answer != answer {
			all = append(all, bound{number, answer})
		}
	}
	return all
}

// search finds a number's answer by binary search. It needs about seven comparisons; a list would need three hundred.
func search(all []bound) []unix.SockFilter {
	if len(all) == 1 {
		return []unix.SockFilter{all[0].answer}
	}
	half := len(all) / 2
	low, high := search(all[:half]), search(all[half:])
	return slices.Concat([]unix.SockFilter{jump(unix.BPF_JGE, all[half].from, len(low), 0)}, low, high)
}
