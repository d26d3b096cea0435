//go:build unix

package main

import (
	"errors"
	"io"
	"os/exec"
	"syscall"
)

// This file owns what differs on the Unix systems on which people work.

// apart keeps a program out of the terminal's process group, all of whose members receive Ctrl-C.
func apart(run *exec.Cmd) { run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// closedPipe reports whether an error says that the reader is gone.
func closedPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
