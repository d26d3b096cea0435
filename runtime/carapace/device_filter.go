//go:build linux

package carapace

// This file restricts the device nodes that a container may open: the rules, their form for cgroup v1, and the eBPF
// program for cgroup v2. The nodes in /dev are only a convenience. These rules also hold for nodes that the task makes
// or finds elsewhere.

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/bpf"
)

// deviceRule permits all access to one device, or to every minor number of its major number.
type deviceRule struct {
	path         string
	block        bool
	major, minor uint32
	everyMinor   bool
}

// plainDevices lists the nodes that every container has.
var plainDevices = []deviceRule{
	{path: "/dev/null", major: 1, minor: 3}, {path: "/dev/zero", major: 1, minor: 5},
	{path: "/dev/full", major: 1, minor: 7},
	{path: "/dev/random", major: 1, minor: 8}, {path: "/dev/urandom", major: 1, minor: 9},
	{path: "/dev/tty", major: 5, minor: 0},
}

// terminals lists the devices of the container's own devpts.
var terminals = []deviceRule{{major: 5, minor: 2}, {major: 136, everyMinor: true}}

// grantedDevices looks up the requested device nodes on the host. It refuses a missing node. A task without its granted
// GPU would otherwise fail later, with a misleading reason.
func grantedDevices(paths []string) ([]deviceRule, error) {
	var rules []deviceRule
	for _, asked := range paths {
		path := filepath.Clean(asked)
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil {
			return nil, fmt.Errorf("device %s: %w", path, err)
		}
		kind := stat.Mode & unix.S_IFMT
		if kind != unix.S_IFCHR && kind != unix.S_IFBLK {
			return nil, fmt.Errorf("device %s is not a device node", path)
		}
		rules = append(rules, deviceRule{
			path: path, block: kind == unix.S_IFBLK, major: unix.Major(stat.Rdev), minor: unix.Minor(stat.Rdev),
		})
	}
	return rules, nil
}

func (r deviceRule) mode() uint32 {
	if r.block {
		return unix.S_IFBLK
	}
	return unix.S_IFCHR
}

// word returns the rule in the format of devices.allow in cgroup v1.
func (r deviceRule) word() string {
	kind, minor := "c", fmt.Sprint(r.minor)
	if r.block {
		kind = "b"
	}
	if r.everyMinor {
		minor = "*"
	}
	return fmt.Sprintf("%s %d:%s rwm", kind, r.major, minor)
}

const (
	bpfCharDevice  = 2 // the kernel's value in the low half of access_type
	bpfBlockDevice = 1
)

// deviceProgram returns the filter. For each rule, it compares kind, major and minor, and returns 1 if they match.
func deviceProgram(rules []deviceRule) bpf.Program {
	var program bpf.Program
	// Register 1 points to the context: access and kind, major, minor, 32 bits each.
	program.Emit(bpf.Load32, 2, 1, 0, 0)
	program.Emit(bpf.And32, 2, 0, 0, 0xffff)
	program.Emit(bpf.Load32, 3, 1, 4, 0)
	program.Emit(bpf.Load32, 4, 1, 8, 0)
	for _, rule := range rules {
		kind := uint32(bpfCharDevice)
		if rule.block {
			kind = bpfBlockDevice
		}
		rest := int16(5) // instructions of this rule: three comparisons, the result, the return
		if rule.everyMinor {
			rest = 4
		}
		program.Emit(bpf.JumpNot64, 2, 0, rest-1, kind)
		program.Emit(bpf.JumpNot64, 3, 0, rest-2, rule.major)
		if !rule.everyMinor {
			program.Emit(bpf.JumpNot64, 4, 0, rest-3, rule.minor)
		}
		program.Answer(1)
	}
	program.Answer(0)
	return program
}

// deviceHook is the kernel's hook for device access of a group.
var deviceHook = bpf.Hook{Kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, Attach: unix.BPF_CGROUP_DEVICE}

// attachDeviceFilter sets the program on a cgroup of v2. The kernel removes it with the cgroup.
func attachDeviceFilter(leaf string, rules []deviceRule) error {
	return deviceHook.Put(leaf, deviceProgram(rules))
}
