package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// This file owns what differs on Windows, as a system on which people work.

// apart keeps a program out of the console's process group, all of whose members receive Ctrl-C.
func apart(run *exec.Cmd) {
	run.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// resizes are the signals that tell of another size of the terminal: there are none.
func resizes() []os.Signal { return nil }

// closedPipe reports whether an error says that the reader is gone, for which Windows has two errors.
func closedPipe(err error) bool {
	return errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_BROKEN_PIPE) ||
		errors.Is(err, io.ErrClosedPipe)
}

// exclusive waits until no other process has a file so, and has it until the file is closed.
func exclusive(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{})
}
