//go:build linux

// What a task may do: capabilities, resource limits and the tables of their names. This file changes the calling thread
// only; who calls it must keep that thread for the task alone.
package carapace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// allCapabilities stands for every capability in an add or drop list.
const allCapabilities = "ALL"

// capabilityNames has the kernel's numbers as indices.
var capabilityNames = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE",
	"SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME",
	"SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
	"WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
}

// rootCapabilities are what a task that runs as root keeps: enough to install packages and serve a port. MKNOD is not
// among them, because a device node is a way around /dev; SYS_CHROOT is not, because the chroot of the task is what
// keeps it from making user namespaces.
var rootCapabilities = []string{
	"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "NET_BIND_SERVICE",
}

func capabilityNumber(name string) (int, bool) {
	name = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
	number := slices.Index(capabilityNames, name)
	return number, number >= 0
}

// capabilities answers the set a task may have at most, and what was added by name (a user other than root gets only that).
func capabilities(add, drop []string) (kept map[int]bool, added []uintptr) {
	kept = map[int]bool{}
	apply := func(names []string, value bool) {
		for _, name := range names {
			if strings.EqualFold(name, allCapabilities) {
				for number := range capabilityNames {
					kept[number] = value
				}
			} else if number, known := capabilityNumber(name); known {
				kept[number] = value
			}
		}
	}
	apply(rootCapabilities, true)
	if slices.ContainsFunc(drop, func(name string) bool { return strings.EqualFold(name, allCapabilities) }) {
		clear(kept) // "drop ALL, add one" keeps the one, in whatever order they were given.
		drop = nil
	}
	apply(add, true)
	apply(drop, false)
	wanted := map[int]bool{}
	for _, name := range add {
		for number := range capabilityNames {
			if strings.EqualFold(name, allCapabilities) {
				wanted[number] = true
			}
		}
		if number, known := capabilityNumber(name); known {
			wanted[number] = true
		}
	}
	for number := range capabilityNames {
		if wanted[number] && kept[number] {
			added = append(added, uintptr(number))
		}
	}
	return kept, added
}

// Capabilities are the names, as others write them, of what a task of such a spec may have at most.
func Capabilities(add, drop []string) []string {
	kept, _ := capabilities(add, drop)
	var names []string
	for number, name := range capabilityNames {
		if kept[number] {
			names = append(names, "CAP_"+name)
		}
	}
	return names
}

// boundCapabilities takes from the calling thread, for good, what it may ever gain through an exec. What it has now it
// keeps until then: changing the user still needs it.
func boundCapabilities(kept map[int]bool) error {
	for number := range 64 {
		if kept[number] {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0)
		if err == unix.EINVAL {
			return nil // The kernel knows no capability of that number, nor of any higher one.
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", number, err)
		}
	}
	return nil
}

var rlimitNumbers = map[string]int{
	"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA,
	"fsize": unix.RLIMIT_FSIZE, "locks": unix.RLIMIT_LOCKS, "memlock": unix.RLIMIT_MEMLOCK,
	"msgqueue": unix.RLIMIT_MSGQUEUE, "nice": unix.RLIMIT_NICE, "nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC,
	"rss": unix.RLIMIT_RSS, "rtprio": unix.RLIMIT_RTPRIO, "rttime": unix.RLIMIT_RTTIME,
	"sigpending": unix.RLIMIT_SIGPENDING, "stack": unix.RLIMIT_STACK,
}

// deadlyRlimits would end init, whose runtime maps memory and starts threads whenever it likes. They are set on the
// command right after its exec instead: it is some microseconds without them, and never more than that.
var deadlyRlimits = []string{"as", "cpu", "data", "nproc", "rttime"}

// limitCommand sets those on a process.
func limitCommand(pid int, limits []Rlimit) error {
	for _, limit := range limits {
		if !slices.Contains(deadlyRlimits, limit.Name) {
			continue
		}
		err := unix.Prlimit(pid, rlimitNumbers[limit.Name], &unix.Rlimit{Cur: uint64(limit.Soft), Max: uint64(limit.Hard)}, nil)
		if err == unix.ESRCH {
			return nil // It has ended already.
		}
		if err != nil {
			return fmt.Errorf("%s %d:%d (for a user other than init's it takes CAP_SYS_RESOURCE): %w", limit.Name, limit.Soft, limit.Hard, err)
		}
	}
	return nil
}

func rlimitNames() []string { return slices.Sorted(maps.Keys(rlimitNumbers)) }

// limitResources sets the limits on this process, so that the command is born with them, and answers how to undo it: init
// itself must not die of a limit that was meant for the task. The deadly ones are left out unless asked for.
func limitResources(limits []Rlimit, deadly bool) (restore func(), err error) {
	type saved struct {
		number int
		limit  unix.Rlimit
	}
	var before []saved
	restore = func() {
		for _, old := range slices.Backward(before) {
			// Without CAP_SYS_RESOURCE a hard limit stays down; the soft one is what would hurt.
			if unix.Setrlimit(old.number, &old.limit) != nil {
				var now unix.Rlimit
				if unix.Getrlimit(old.number, &now) == nil {
					now.Cur = min(old.limit.Cur, now.Max)
					_ = unix.Setrlimit(old.number, &now)
				}
			}
		}
	}
	for _, limit := range limits {
		if !deadly && slices.Contains(deadlyRlimits, limit.Name) {
			continue
		}
		number := rlimitNumbers[limit.Name]
		old := saved{number: number}
		if err := unix.Getrlimit(number, &old.limit); err != nil {
			return restore, fmt.Errorf("%s: %w", limit.Name, err)
		}
		// -1 becomes the largest number, which is the kernel's word for unlimited.
		if err := unix.Setrlimit(number, &unix.Rlimit{Cur: uint64(limit.Soft), Max: uint64(limit.Hard)}); err != nil {
			return restore, fmt.Errorf("%s %d:%d: %w", limit.Name, limit.Soft, limit.Hard, err)
		}
		before = append(before, old)
	}
	return restore, nil
}
