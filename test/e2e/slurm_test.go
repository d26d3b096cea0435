package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns that a batch script finds on a cluster what it would find on Slurm's: its files, its environment, its
// number, and an end that its own programs see.

func TestSlurm(t *testing.T) {
	c := clusterOf(t, "process")
	for _, n := range []string{"n1", "n2"} {
		c.node(n, "r1")
	}
	home := t.TempDir()
	for _, dir := range []string{filepath.Dir(home), home} { // jobs of root's have users of their own
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cli := filepath.Join(bin, "synapse-cli")
	run := func(words ...string) answer {
		t.Helper()
		cmd := c.command(cli, append([]string{"slurm"}, words...)...)
		cmd.Dir = home
		return ask(t, cmd)
	}
	script := "#!/bin/sh\n#SBATCH -N 2 --ntasks-per-node=3 -o %x-%j.out -e err.%j\n#SBATCH -J Both\n" +
		"echo number $SLURM_JOB_ID of $SLURM_NTASKS on $SLURM_NNODES as \"$*\" in $PWD\necho wrong >&2\nexit 5\n"
	if err := os.WriteFile(filepath.Join(home, "job.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(run("sbatch", "--parsable", "--wait", "job.sh", "a b", "c").wants(t, 5, "", "").out)
	holds := func(name, want string) {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(home, name)); err != nil || string(text) != want {
			t.Errorf("%s has %q (%v), and not %q", name, text, err, want)
		}
	}
	holds("Both-"+id+".out", "number "+id+" of 6 on 2 as a b c in "+home+"\n")
	holds("err."+id, "wrong\n")
	run("sacct", "-j", id, "-P", "-n", "-o", "JobID,JobName,State,ExitCode,NNodes").wants(t, 0, id+"|both|FAILED|5:0|2\n",
		"")

	array := strings.TrimSpace(run("sbatch", "--parsable", "--wait", "-a", "1-2", "--wrap",
		"echo element $SLURM_ARRAY_TASK_ID").
		wants(t, 0, "", "").out)
	holds("slurm-"+array+"_1.out", "element 1\n")
	holds("slurm-"+array+"_2.out", "element 2\n")

	held := strings.TrimSpace(run("sbatch", "--parsable", "-H", "--wrap", "sleep 600").wants(t, 0, "", "").out)
	run("squeue", "-h", "-j", held, "-o", "%i %t %r").wants(t, 0, held+" PD JobHeldUser\n", "")
	run("scontrol", "release", held).wants(t, 0, "", "")
	c.await(c.newest(), messages.PhaseRunning, 60*time.Second)
	run("scontrol", "show", "job", held).wants(t, 0, "JobState=RUNNING", "")
	run("scancel", held).wants(t, 0, "", "")
	c.await(c.newest(), messages.PhaseCancelled, 60*time.Second)
	run("squeue", "-h").wants(t, 0, "", "")
	run("sacct", "-j", held, "-P", "-n", "-o", "State").wants(t, 0, "CANCELLED\n", "")
}
