package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests the signals of scancel: to the steps, to the script, and to both.

// signalScript writes a line for each signal to its script and to each of its processes, of which two are in a step.
const signalScript = `#!/bin/bash
. ./says script
bash -c '. ./says child; echo ready >>ready; while :; do sleep 0.05; done' &
srun bash -c '. ./says step$SLURM_PROCID; echo ready >>ready; while [ ! -e goes ]; do sleep 0.05; done' &
until [ -e goes ]; do sleep 0.05; done
kill %1
`

// signalSays reports each signal by the name of its process.
const signalSays = `name=$1
trap 'echo $name got USR1 >>got' USR1
trap 'echo $name got USR2 >>got' USR2
`

// TestSlurmSignals checks which processes get a signal of scancel. Slurm sends signals only to steps by default.
func TestSlurmSignals(t *testing.T) {
	c := clusterOf(t, "process")
	for _, n := range []string{"n1", "n2"} {
		c.node(n, "r1")
	}
	home := t.TempDir()
	for _, dir := range []string{filepath.Dir(home), home} { // jobs of root have their own users
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	run := func(words ...string) result {
		t.Helper()
		cmd := c.command(filepath.Join(bin, "synapse-cli"), append([]string{"slurm"}, words...)...)
		cmd.Dir = home
		return ask(t, cmd)
	}
	for name, text := range map[string]string{"job.sh": signalScript, "says": signalSays} { //order: each is another one
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(home, name))
		return strings.Join(slices.Sorted(strings.Lines(string(text))), "")
	}
	id := strings.TrimSpace(run("sbatch", "--parsable", "-N", "2", "job.sh").wants(t, 0, "", "").out)
	c.eventually("the child and the step run", func() bool { return strings.Count(read("ready"), "\n") == 3 }, func() {})
	steps := "step0 got USR1\nstep1 got USR1\n"
	for _, sent := range []struct {
		words []string
		want  string
	}{
		{[]string{"--signal", "SIGUSR1", id}, steps}, {[]string{id, "-s", "10"}, steps},
		{[]string{"-s", "USR1", id + ".0"}, steps}, {[]string{"-s", "USR1", id + ".7"}, ""},
		{[]string{"--batch", "--signal=USR2", id}, "script got USR2\n"},
		{[]string{"-s", "usr2", id + ".batch"}, "script got USR2\n"},
		{[]string{"--full", "-s", "USR1", id}, "child got USR1\nscript got USR1\n" + steps},
		{[]string{"-n", "job.sh", "-s", "USR1"}, steps},
	} {
		got := run(append([]string{"scancel"}, sent.words...)...).wants(t, 0, "", "")
		if (sent.want == "") != strings.Contains(got.err, "no such process") {
			t.Errorf("scancel %v: %q", sent.words, got.err)
		}
		c.eventually("scancel "+strings.Join(sent.words, " "), func() bool { return read("got") == sent.want }, func() {})
		os.Remove(filepath.Join(home, "got"))
	}
	run("scancel", "-s", "FOO", id).wants(t, 1, "", "unknown signal FOO")
	run("squeue", "-h", "-j", id, "-o", "%T").wants(t, 0, "RUNNING\n", "")
	if err := os.WriteFile(filepath.Join(home, "goes"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.await(c.newest(), messages.PhaseSucceeded)
	run("scancel", "-s", "USR1", id).wants(t, 0, "", "")

	// A job that has not started gets no signal. Without an srun, the processes of the tasks get it.
	held := strings.TrimSpace(run("sbatch", "--parsable", "-H", "--wrap", "true").wants(t, 0, "", "").out)
	run("scancel", "-s", "USR1", held).wants(t, 1, "", "Kill job error on job id "+held)
	run("scancel", held+".0").wants(t, 1, "", "only a running job gets a signal")
	run("scancel", "-s", "KILL", held).wants(t, 0, "", "")
	c.cli("submit", "--cpu", "1", "--image", "host", "--", "sh", "-c", "trap 'exit 7' USR1; while :; do sleep 0.05; done").
		wants(t, 0, "", "")
	own := c.newest()
	c.await(own, messages.PhaseRunning)
	run("scancel", "-s", "USR1", own).wants(t, 0, "", "")
	if r := c.await(own, messages.PhaseFailed).GetRecord(); r.GetExitCode() != 7 {
		t.Errorf("the job ended with %d", r.GetExitCode())
	}
}
