//go:build linux

package main

// This file owns what is left when `carapace run` is killed with SIGKILL. Its container dies with it, but the kernel
// removes no control group; so a second process, in a session of its own, waits for that and removes them. What was
// killed before its sweeper started, or together with it, is removed by the next sweeper, by the next start with the
// same id, or by gc.

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

// sweepWord is the sweeper's command. No help lists it: only this program uses it.
const sweepWord = "sweep-when-alone"

// sweepAfter is how long a container must live before it gets a sweeper, which costs a third of the start of a
// container that ends at once.
const sweepAfter = 100 * time.Millisecond

// sweepLimit bounds how long it waits for the dead process's lock, which ends with the last thread of that process.
const sweepLimit = 10 * time.Second

// leaveSweeper starts the sweeper of a container. dismiss ends it, once nothing is left to do.
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
		writer.Close() // not before: the sweeper waits for its end
	}
}

// sweepWhenAlone waits for the end of the process that started it, and removes what that process left.
func sweepWhenAlone(arguments []string) int {
	flags := flag.NewFlagSet("carapace "+sweepWord, flag.ContinueOnError)
	at := stateFlags{}
	at.register(flags)
	if code, done := parse(flags, arguments, codeUsage); done || flags.NArg() != 1 {
		return max(code, codeUsage)
	}
	_, _ = carapace.GC(at.stateDir, at.cgroups) // left by earlier runs
	if n, _ := os.Stdin.Read(make([]byte, 1)); n > 0 {
		return codeUsage // another program has called it
	}
	for deadline := time.Now().Add(sweepLimit); ; time.Sleep(10 * time.Millisecond) {
		err := carapace.RemoveID(at.stateDir, flags.Arg(0), at.cgroups)
		if !errors.Is(err, carapace.ErrExists) || time.Now().After(deadline) {
			break
		}
	}
	_, _ = carapace.GC(at.stateDir, at.cgroups) // removes the groups above it, if nothing uses them
	return 0
}
