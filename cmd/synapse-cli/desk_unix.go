//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// This file contains the code for clients on Unix.

// apart starts a program outside the terminal's process group, so that Ctrl-C does not reach it.
func apart(run *exec.Cmd) { run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// resizes returns the signals for a changed size of the terminal.
func resizes() []os.Signal { return []os.Signal{syscall.SIGWINCH} }

// exclusive waits for an exclusive lock on a file, and holds it until the file is closed.
func exclusive(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			return err
		}
	}
}
