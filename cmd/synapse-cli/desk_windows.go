package main

import (
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

// exclusive waits until no other process has a file so, and has it until the file is closed.
func exclusive(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{})
}
