//go:build linux

// What is left when `carapace run` is killed outright. Its container dies with it, but nothing of the kernel's removes
// a control group; so a second process waits for just that, in a session of its own, and clears away. What was killed
// before there was one, or with it, is cleared away by the next one's, by the next start of the id, or by gc.
package main

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

// sweepWord is the sweeper's command. It is in no help: nobody else has a use for it.
const sweepWord = "sweep-when-alone"

// sweepAfter is how long a container has to live before it is given a sweeper, which costs as much as a third of the
// start of one that ends at once.
const sweepAfter = 100 * time.Millisecond

// sweepLimit bounds how long it waits for the dead one's lock, which ends with the last of that process.
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
		writer.Close() // not before: its end is what the sweeper waits for
	}
}

// sweepWhenAlone waits for the end of the process that started it, and removes what that left.
func sweepWhenAlone(arguments []string) int {
	flags := flag.NewFlagSet("carapace "+sweepWord, flag.ContinueOnError)
	at := place{}
	at.register(flags)
	if code, done := parse(flags, arguments, codeUsage); done || flags.NArg() != 1 {
		return max(code, codeUsage)
	}
	_, _ = carapace.GC(at.stateDir, at.cgroups) // of those before us
	if n, _ := os.Stdin.Read(make([]byte, 1)); n > 0 {
		return codeUsage // somebody else has called it
	}
	for deadline := time.Now().Add(sweepLimit); ; time.Sleep(10 * time.Millisecond) {
		err := carapace.RemoveID(at.stateDir, flags.Arg(0), at.cgroups)
		if !errors.Is(err, carapace.ErrExists) || time.Now().After(deadline) {
			break
		}
	}
	_, _ = carapace.GC(at.stateDir, at.cgroups) // takes the groups above it away, if nobody has a use for them
	return 0
}
