//go:build linux

package carapace

// This file owns the calls that only this architecture has.

import "golang.org/x/sys/unix"

var privateCalls = []uint32{
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_MODIFY_LDT,
	unix.SYS_QUERY_MODULE, unix.SYS_SYSFS, unix.SYS__SYSCTL, unix.SYS_USELIB, unix.SYS_USTAT,
}
