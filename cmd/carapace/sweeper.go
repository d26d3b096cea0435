//go:build linux

package main

// This file cleans up after `carapace run` was killed with SIGKILL. The container dies with the command, but its
// cgroups remain. A second process in a separate session, the sweeper, waits for the death and removes them. If the
// command is killed before its sweeper starts, or together with it, the next sweeper, the next start with the same
// ID, or gc removes the remains.

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/yi-json/synapse/runtime/carapace"
)

// sweepWord is the sweeper's subcommand. It is not in the help, because only this program uses it.
const sweepWord = "sweep-when-alone"

// sweepAfter is the minimum lifetime of a container before it gets a sweeper. A sweeper costs a third of the start
// of a very short container.
const sweepAfter = 100 * time.Millisecond

// sweepLimit limits the wait for the dead process's lock. The lock is free when the last thread of that process has
// ended.
const sweepLimit = 10 * time.Second

// leaveSweeper starts the sweeper of a container. Call dismiss when nothing is left to clean up.
func (r *request) leaveSweeper() (dismiss func()) {
	stateDir, err := filepath.Abs(r.stateDir)
	if err != nil {
		return func() {}
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return func() {}
	}
	defer reader.Close()
	sweeper := exec.Command("/proc/self/exe", sweepWord, "--state-dir", stateDir, "--cgroup-root", r.cgroups.Root,
		"--cgroup-parent", r.cgroups.Parent, r.spec.ID)
	sweeper.Stdin, sweeper.Dir, sweeper.Env = reader, "/", []string{"GOMAXPROCS=1"}
	sweeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := sweeper.Start(); err != nil {
		writer.Close()
		return func() {}
	}
	return func() {
		_ = sweeper.Process.Kill()
		_ = sweeper.Wait()
		writer.Close() // only after the kill: the end of the pipe starts the sweep
	}
}

// sweepWhenAlone waits for the end of its parent process, and removes the container that the parent left.
func sweepWhenAlone(arguments []string) int {
	flags := flag.NewFlagSet("carapace "+sweepWord, flag.ContinueOnError)
	at := stateFlags{}
	at.register(flags)
	if code, done := parse(flags, arguments, codeUsage); done || flags.NArg() != 1 {
		return max(code, codeUsage)
	}
	_, _ = carapace.GC(at.stateDir, at.cgroups) // remains of earlier runs
	if n, _ := os.Stdin.Read(make([]byte, 1)); n > 0 {
		return codeUsage // another program has started it
	}
	for deadline := time.Now().Add(sweepLimit); ; time.Sleep(10 * time.Millisecond) {
		err := carapace.RemoveID(at.stateDir, flags.Arg(0), at.cgroups)
		if !errors.Is(err, carapace.ErrExists) || time.Now().After(deadline) {
			break
		}
	}
	_, _ = carapace.GC(at.stateDir, at.cgroups) // also removes the parent cgroups, if they are unused
	return 0
}
