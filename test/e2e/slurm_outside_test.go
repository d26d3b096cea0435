package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests srun and salloc outside of a script: a job that ends with its command, and steps in an existing job.

// steppedFromOutside runs them in a folder, on a cluster of two nodes.
func steppedFromOutside(t *testing.T, c *cluster, home string) {
	t.Helper()
	doors := filepath.Join(t.TempDir(), "bin")
	c.cli("slurm", "install", doors).wants(t, 0, filepath.Join(doors, "salloc"), "")
	begun := func(stdin string, told func(int), words ...string) result {
		t.Helper()
		cmd := c.command(filepath.Join(doors, words[0]), words[1:]...)
		cmd.Dir, cmd.Env = home, append(cmd.Env, "PATH="+doors+":"+os.Getenv("PATH"))
		cmd.Stdin = strings.NewReader(stdin)
		return ask(t, cmd, told)
	}
	run := func(words ...string) result {
		t.Helper()
		return begun("", func(int) {}, words...)
	}
	lines := func(text string) string { return strings.Join(slices.Sorted(strings.Lines(text)), "") }
	ended := func(phase string, code int32) {
		t.Helper()
		if r := c.await(c.newest(), phase).GetRecord(); r.GetExitCode() != code {
			t.Errorf("the job ended with %d: %s", r.GetExitCode(), r.GetOutcome())
		}
	}

	each := run("srun", "-N", "2", "-n", "4", "--gpus-per-task=1", "-l", "sh", "-c",
		"echo $SLURM_PROCID.$SLURM_LOCALID of $SLURM_NTASKS in $PWD")
	if each.code != 0 || lines(each.out) != fmt.Sprintf("0: 0.0 of 4 in %[1]s\n1: 1.1 of 4 in %[1]s\n"+
		"2: 2.0 of 4 in %[1]s\n3: 3.1 of 4 in %[1]s\n", home) {
		t.Errorf("srun ended with %d: %q\n%s", each.code, each.out, each.err)
	}
	ended("succeeded", 0)
	run("srun", "-n", "2", "sh", "-c", "exit $((SLURM_PROCID + 3))").wants(t, 4, "", "task 1: Exited with exit code 4")
	ended("failed", 4)
	begun("typed", func(int) {}, "srun", "-n", "2", "sh", "-c", "cat; echo .").wants(t, 0, "typed", "")
	run("srun", "-N", "2", "--pty", "sh", "-c", "test -t 1 || echo at a pipe; srun true && echo stepped").
		wants(t, 0, "at a pipe\nstepped\n", "srun: no terminal is allocated: standard input is not a terminal\n")

	// The command runs here, and its srun in the job. It waits for a scheduler that is killed meanwhile.
	began, goes := filepath.Join(home, "began"), filepath.Join(home, "goes")
	room := begun("", func(int) {
		appears(t, began)
		c.scheduler.kill()
		c.lead(c.address)
		if err := os.WriteFile(goes, nil, 0o644); err != nil {
			t.Error(err)
		}
	}, "salloc", "-N", "2", "--ntasks-per-node=2", "sh", "-c", `echo $$ >began; until [ -e goes ]; do sleep 0.05; done
echo here as $SYNAPSE_RANK, $SLURM_JOB_NAME of $SLURM_NNODES with $SLURM_NTASKS
MINE="it's mine"; export MINE
srun sh -c 'echo $SLURM_JOB_ID: $SLURM_PROCID, $MINE' | sort
srun -n 1 -w "$(scontrol show hostnames | tail -n 1)" sh -c 'echo alone on $SLURM_NODEID, rank $SYNAPSE_RANK'
srun -t 0:01 sleep 60 || echo timed out with $?
srun --switches=1 true || echo refused
squeue -h -j $SLURM_JOB_ID -o %T
exit 6`)
	number := messages.NumericID(c.newest())
	want := "here as , sh of 2 with 4\n"
	for process := range 4 {
		want += fmt.Sprintf("%s: %d, it's mine\n", number, process)
	}
	room.wants(t, 6, want+"alone on 0, rank 1\ntimed out with 143\nrefused\nRUNNING\n",
		"salloc: Granted job allocation "+number)
	room.wants(t, 6, "", "srun: error: --switches: applies to jobs, and this is a step in job "+number)
	room.wants(t, 6, "", "salloc: Relinquishing job allocation "+number)
	if strings.Contains(room.err, "revoked") {
		t.Errorf("the allocation ended: %s", room.err)
	}
	ended("failed", 6)

	// The exit code of a command that ends without a scheduler is passed on when one returns.
	if err := os.Remove(goes); err != nil {
		t.Fatal(err)
	}
	begun("", func(int) {
		appears(t, began)
		c.scheduler.kill()
		if err := os.WriteFile(goes, nil, 0o644); err != nil {
			t.Error(err)
		}
		appears(t, filepath.Join(home, "gone"))
		c.lead(c.address)
	}, "salloc", "sh", "-c", "echo $$ >began; until [ -e goes ]; do sleep 0.05; done; echo $$ >gone; exit 5").
		wants(t, 5, "", "Relinquishing")
	ended("failed", 5)

	// If an allocation is ended, it ends its command if requested, and prints a message in any case.
	begun("", func(int) {
		appears(t, began)
		run("scancel", messages.NumericID(c.newest())).wants(t, 0, "", "")
	}, "salloc", "-K", "sh", "-c", "echo $$ >began; exec sleep 1000").wants(t, 143, "", "has been revoked")
	ended("cancelled", 0)

	// An allocation without a command stays, and accepts steps.
	run("salloc", "--no-shell").wants(t, 0, "", "Granted job allocation")
	kept := messages.NumericID(c.newest())
	run("srun", "--jobid="+kept, "sh", "-c", "echo in $SLURM_JOB_ID").wants(t, 0, "in "+kept+"\n", "")
	run("scancel", kept).wants(t, 0, "", "")
	ended("cancelled", 0)
	run("srun", "--jobid="+kept, "true").wants(t, 1, "", "job is cancelled, not running")
}
