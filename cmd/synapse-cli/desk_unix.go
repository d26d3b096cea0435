//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// This file owns what differs on the Unix systems on which people work.

// apart keeps a program out of the terminal's process group, all of whose members receive Ctrl-C.
func apart(run *exec.Cmd) { run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// resizes are the signals that tell of another size of the terminal.
func resizes() []os.Signal { return []os.Signal{syscall.SIGWINCH} }

// exclusive waits until no other process has a file so, and has it until the file is closed.
func exclusive(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			return err
		}
	}
}
