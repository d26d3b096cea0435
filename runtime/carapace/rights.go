//go:build linux

package carapace

// This file owns the capabilities of a task, and the tables of names of capabilities and resource limits.

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// allCapabilities means every capability in an add or drop list.
const allCapabilities = "ALL"

// capabilityNames is indexed by the kernel's numbers.
var capabilityNames = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE",
	"SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME",
	"SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
	"WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
}

// rootCapabilities lists the capabilities of a task that runs as root: enough to install packages and serve a port.
// MKNOD is missing, because a device node would bypass /dev. SYS_CHROOT is missing, because the task's chroot prevents
// it from making user namespaces.
const rootCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE

func capabilityNumber(name string) (int, bool) {
	name = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
	number := slices.Index(capabilityNames, name)
	return number, number >= 0
}

// capabilitySet has one bit per capability, at its number.
type capabilitySet uint64

func (s capabilitySet) has(number int) bool { return s&(1<<number) != 0 }

// setOf returns the set of the named capabilities.
func setOf(names []string) (set capabilitySet) {
	for _, name := range names {
		if strings.EqualFold(name, allCapabilities) {
			return 1<<len(capabilityNames) - 1
		}
		if number, known := capabilityNumber(name); known {
			set |= 1 << number
		}
	}
	return set
}

// capabilities returns the set that a task may have at most, and the part that was added by name. A user other than
// root gets only the added part.
func capabilities(add, drop []string) (kept, added capabilitySet) {
	kept = rootCapabilities
	if slices.ContainsFunc(drop, func(name string) bool { return strings.EqualFold(name, allCapabilities) }) {
		kept, drop = 0, nil // "drop ALL, add one" keeps the added one, in either order
	}
	kept = (kept | setOf(add)) &^ setOf(drop)
	return kept, setOf(add) & kept
}

// Capabilities returns the names of the capabilities that a task may have at most, with the prefix CAP_.
func Capabilities(add, drop []string) []string {
	kept, _ := capabilities(add, drop)
	var names []string
	for number, name := range capabilityNames {
		if kept.has(number) {
			names = append(names, "CAP_"+name)
		}
	}
	return names
}

var rlimitNumbers = map[string]int{
	"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA,
	"fsize": unix.RLIMIT_FSIZE, "locks": unix.RLIMIT_LOCKS, "memlock": unix.RLIMIT_MEMLOCK,
	"msgqueue": unix.RLIMIT_MSGQUEUE, "nice": unix.RLIMIT_NICE, "nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC,
	"rss": unix.RLIMIT_RSS, "rtprio": unix.RLIMIT_RTPRIO, "rttime": unix.RLIMIT_RTTIME,
	"sigpending": unix.RLIMIT_SIGPENDING, "stack": unix.RLIMIT_STACK,
}

func rlimitNames() []string { return slices.Sorted(maps.Keys(rlimitNumbers)) }
