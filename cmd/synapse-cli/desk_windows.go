package main

import (
	"errors"
	"io"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// This file owns what Windows has of its own, as a desk that people sit at.

// apart has a program be no part of the console's group, whose members are all told of Ctrl-C.
func apart(run *exec.Cmd) {
	run.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// closedPipe reports whether the reader has gone, which has two names there.
func closedPipe(err error) bool {
	return errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_BROKEN_PIPE) ||
		errors.Is(err, io.ErrClosedPipe)
}
