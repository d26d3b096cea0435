package main

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// This file contains the code for clients on Windows.

// apart starts a program outside the console's process group, so that Ctrl-C does not reach it.
func apart(run *exec.Cmd) {
	run.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// resizes returns no signals, because Windows has none for a changed size of the terminal.
func resizes() []os.Signal { return nil }

// exclusive waits for an exclusive lock on a file, and holds it until the file is closed.
func exclusive(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{})
}
