//go:build unix

package transfer

// This file owns what an open is told on the Unix systems.

import "syscall"

// nonblock keeps an open from waiting for the other end of a pipe that was put in a file's place.
const nonblock = syscall.O_NONBLOCK
