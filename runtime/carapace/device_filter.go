//go:build linux

// Which device nodes a container may open: the rules, the words of cgroup v1 for them, and the eBPF program of cgroup v2.
// The node in /dev is a convenience; this is the wall, and it holds for nodes that the task makes or finds elsewhere.
package carapace

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deviceRule allows everything with one device, or with every minor of its major.
type deviceRule struct {
	path         string
	block        bool
	major, minor uint32
	everyMinor   bool
}

// plainDevices are the nodes that every container has.
var plainDevices = []deviceRule{
	{path: "/dev/null", major: 1, minor: 3}, {path: "/dev/zero", major: 1, minor: 5}, {path: "/dev/full", major: 1, minor: 7},
	{path: "/dev/random", major: 1, minor: 8}, {path: "/dev/urandom", major: 1, minor: 9}, {path: "/dev/tty", major: 5, minor: 0},
}

// terminals are made by the container's own devpts.
var terminals = []deviceRule{{major: 5, minor: 2}, {major: 136, everyMinor: true}}

// grantedDevices looks the asked device nodes up on the machine. A node that is not there is a refusal: a task that was
// given a GPU and finds none would fail later, and for a reason that nobody sees.
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
			return nil, fmt.Errorf("device %s is no device node", path)
		}
		rules = append(rules, deviceRule{path: path, block: kind == unix.S_IFBLK, major: unix.Major(stat.Rdev), minor: unix.Minor(stat.Rdev)})
	}
	return rules, nil
}

func (r deviceRule) mode() uint32 {
	if r.block {
		return unix.S_IFBLK
	}
	return unix.S_IFCHR
}

// word is the rule as devices.allow of cgroup v1 reads it.
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

// The few instructions of eBPF that the filter needs.
const (
	bpfLoad32    = 0x61 // dst = *(u32 *)(src + offset)
	bpfAnd32     = 0x54 // dst &= immediate
	bpfJumpNot64 = 0x55 // if dst != immediate, jump
	bpfMove64    = 0xb7 // dst = immediate
	bpfExit      = 0x95

	bpfCharDevice  = 2 // what the kernel puts into the low half of access_type
	bpfBlockDevice = 1
)

// deviceProgram is the filter: each rule compares kind, major and minor, and answers 1 where they are its own.
func deviceProgram(rules []deviceRule) []byte {
	var program []byte
	emit := func(code, registers byte, offset int16, immediate uint32) {
		program = append(program, code, registers)
		program = binary.NativeEndian.AppendUint16(program, uint16(offset))
		program = binary.NativeEndian.AppendUint32(program, immediate)
	}
	// The context is in register 1: access and kind, major, minor, 32 bits each.
	emit(bpfLoad32, registers(2, 1), 0, 0)
	emit(bpfAnd32, registers(2, 0), 0, 0xffff)
	emit(bpfLoad32, registers(3, 1), 4, 0)
	emit(bpfLoad32, registers(4, 1), 8, 0)
	for _, rule := range rules {
		kind := uint32(bpfCharDevice)
		if rule.block {
			kind = bpfBlockDevice
		}
		rest := int16(5) // instructions of this rule: three comparisons, the answer, the end
		if rule.everyMinor {
			rest = 4
		}
		emit(bpfJumpNot64, registers(2, 0), rest-1, kind)
		emit(bpfJumpNot64, registers(3, 0), rest-2, rule.major)
		if !rule.everyMinor {
			emit(bpfJumpNot64, registers(4, 0), rest-3, rule.minor)
		}
		emit(bpfMove64, registers(0, 0), 0, 1)
		emit(bpfExit, 0, 0, 0)
	}
	emit(bpfMove64, registers(0, 0), 0, 0)
	emit(bpfExit, 0, 0, 0)
	return program
}

// registers packs destination and source as the machine's byte order has its bit fields.
func registers(destination, source byte) byte {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return source<<4 | destination
	}
	return destination<<4 | source
}

// attachDeviceFilter loads the program and puts it on a cgroup of v2. The kernel drops it with the cgroup.
func attachDeviceFilter(leaf string, rules []deviceRule) error {
	program, license := deviceProgram(rules), []byte("MIT\x00")
	load := struct { // The beginning of union bpf_attr, as BPF_PROG_LOAD reads it.
		kind, count                 uint32
		instructions, license       uint64
		logLevel, logSize           uint32
		log                         uint64
		kernelVersion, programFlags uint32
	}{
		kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, count: uint32(len(program) / 8),
		instructions: uint64(uintptr(unsafe.Pointer(&program[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	loaded, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&load)), unsafe.Sizeof(load))
	runtime.KeepAlive(program)
	runtime.KeepAlive(license)
	if errno != 0 {
		return fmt.Errorf("load filter: %w", errno)
	}
	defer unix.Close(int(loaded))
	cgroup, err := openFile(leaf, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer cgroup.Close()
	attach := struct{ target, program, kind, flags uint32 }{
		uint32(cgroup), uint32(loaded), unix.BPF_CGROUP_DEVICE, unix.BPF_F_ALLOW_MULTI,
	}
	if _, _, errno = unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_ATTACH, uintptr(unsafe.Pointer(&attach)), unsafe.Sizeof(attach)); errno != 0 {
		return fmt.Errorf("attach filter: %w", errno)
	}
	return nil
}
