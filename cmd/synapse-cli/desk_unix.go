//go:build unix

package main

import (
	"errors"
	"io"
	"os/exec"
	"syscall"
)

// This file owns what the Unixes have of their own, of those that people sit at.

// apart has a program be no part of the terminal's group, whose members are all told of Ctrl-C.
func apart(run *exec.Cmd) { run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// closedPipe reports whether the reader has gone.
func closedPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}
