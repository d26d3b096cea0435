//go:build linux

// Package bpf attaches small programs to cgroups of v2. It owns the instructions, and the system calls that load the
// programs. The caller decides what a program does. The kernel removes a program with its cgroup, so nothing has to be
// detached.
package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The instructions that the filters need.
const (
	Load32     = 0x61 // dst = *(u32 *)(src + offset)
	And32      = 0x54 // dst &= immediate
	Copy32     = 0xbc // dst = src
	JumpNot32  = 0x56 // if dst != immediate, jump; compares the lower 32 bits
	JumpNot64  = 0x55 // if dst != immediate, jump
	Move64     = 0xb7 // dst = immediate
	Exit       = 0x95 // return register 0
	bytesPerOp = 8
)

// Program holds the instructions written so far.
type Program []byte

// Emit appends one instruction.
func (p *Program) Emit(code, destination, source byte, offset int16, immediate uint32) {
	*p = append(*p, code, registers(destination, source))
	*p = binary.NativeEndian.AppendUint16(*p, uint16(offset))
	*p = binary.NativeEndian.AppendUint32(*p, immediate)
}

// Len returns the number of instructions.
func (p Program) Len() int { return len(p) / bytesPerOp }

// Answer appends instructions that end the program with this result.
func (p *Program) Answer(answer uint32) {
	p.Emit(Move64, 0, 0, 0, answer)
	p.Emit(Exit, 0, 0, 0, 0)
}

// registers packs destination and source in the bit order of the platform.
func registers(destination, source byte) byte {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return source<<4 | destination
	}
	return destination<<4 | source
}

// Hook is a point in a group at which the kernel runs a program.
type Hook struct{ Kind, Attach uint32 }

// Put loads a program and attaches it to a group. It replaces an earlier program without a gap.
func (h Hook) Put(group string, program Program) error {
	loaded, err := h.load(program)
	if err != nil {
		return fmt.Errorf("load the filter: %w", err)
	}
	defer unix.Close(loaded)
	cgroup, err := unix.Open(group, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(cgroup)
	before, err := h.before(cgroup)
	if err != nil {
		return fmt.Errorf("find the earlier filter: %w", err)
	}
	attach := struct{ target, program, kind, flags, replace uint32 }{
		uint32(cgroup), uint32(loaded), h.Attach, unix.BPF_F_ALLOW_MULTI, 0,
	}
	if before >= 0 {
		defer unix.Close(before)
		attach.flags, attach.replace = attach.flags|unix.BPF_F_REPLACE, uint32(before)
	}
	if _, err := call(unix.BPF_PROG_ATTACH, unsafe.Pointer(&attach), unsafe.Sizeof(attach)); err != nil {
		return fmt.Errorf("attach the filter: %w", err)
	}
	return nil
}

func (h Hook) load(program Program) (int, error) {
	license := []byte("MIT\x00")
	load := struct { // the beginning of union bpf_attr for BPF_PROG_LOAD
		kind, count                 uint32
		instructions, license       uint64
		logLevel, logSize           uint32
		log                         uint64
		kernelVersion, programFlags uint32
		name                        [16]byte
		device, attach              uint32
	}{
		kind: h.Kind, count: uint32(program.Len()), attach: h.Attach,
		instructions: uint64(uintptr(unsafe.Pointer(&program[0]))),
		license:      uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	fd, err := -1, error(nil)
	undisturbed(func() { fd, err = call(unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load)) })
	runtime.KeepAlive(program)
	runtime.KeepAlive(license)
	return fd, err
}

// undisturbed calls do while all signals are blocked on its thread. The kernel aborts a load with EAGAIN when a signal
// is pending, for example one of Go's own or of an ended child. The necessary number of retries would be unknown.
func undisturbed(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	}
	do()
}

// before returns the program that is already attached to a group; -1: none. No other program may be attached to this
// agent's groups.
func (h Hook) before(cgroup int) (int, error) {
	var ids [2]uint32
	query := struct {
		target, kind, queryFlags, attachFlags uint32
		ids                                   uint64
		count, _                              uint32
	}{target: uint32(cgroup), kind: h.Attach, ids: uint64(uintptr(unsafe.Pointer(&ids[0]))), count: uint32(len(ids))}
	_, err := call(unix.BPF_PROG_QUERY, unsafe.Pointer(&query), unsafe.Sizeof(query))
	runtime.KeepAlive(&ids)
	switch {
	case err != nil && !errors.Is(err, unix.ENOSPC):
		return -1, err
	case query.count == 0:
		return -1, nil
	case query.count > 1:
		return -1, errors.New("the group has a filter of another program")
	}
	byID := struct{ id, next, flags uint32 }{id: ids[0]}
	return call(unix.BPF_PROG_GET_FD_BY_ID, unsafe.Pointer(&byID), unsafe.Sizeof(byID))
}

func call(command int, arguments unsafe.Pointer, size uintptr) (int, error) {
	answer, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(arguments), size)
	if errno != 0 {
		return -1, errno
	}
	return int(answer), nil
}
