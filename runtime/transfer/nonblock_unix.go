//go:build unix

package transfer

// This file has the open flag for Unix systems.

import "syscall"

// nonblock prevents an open from waiting for the other end of a pipe at the path.
const nonblock = syscall.O_NONBLOCK
