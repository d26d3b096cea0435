package main

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file tests flags of `submit` that a new user expects, and its answer.

// TestAmbiguousGPUs checks that --gpu with several replicas is refused, and that both unambiguous forms work.
func TestAmbiguousGPUs(t *testing.T) {
	f := startFake(t)
	submit := func(flags string) result {
		return cli(f.address, append(append([]string{"submit", "--name", "x"}, strings.Fields(flags)...), "--image", "host",
			"--", "true")...)
	}
	submit("--gpu 8 -n 2").wants(t, exit.Misuse, "", "--gpu 8 with --replicas 2 could mean 8 GPUs per task or in total\n"+
		"hint: use --gpus-per-task 8 for 16 GPUs, or --gpus 8 for 8 GPUs in total\n")
	for flags, want := range map[string]string{
		"--gpus-per-task 8 -n 2": "2 tasks of 8 GPUs each\n", "--gpus 8 -n 2": "2 tasks of 4 GPUs each\n",
		"--gpu 8 -N 2":           "2 nodes × 8 GPUs, 1 task per node\n",
		"--gpus-per-task 4 -N 2": "2 nodes × 4 GPUs, 1 task per node\n",
		"--gpu 8 -n 1":           "1 task of 8 GPUs\n",
		"--gpus-per-task 2":      "1 task of 2 GPUs\n", "--gpus-per-task 2 -n 2 -c 4": "2 tasks of 2 GPUs, 4 CPUs each\n",
		"--gpu 1 -a 0-99": "100 elements, each with 1 GPU in total, whole nodes\n",
	} {
		submit(flags).wants(t, 0, "Job jnew1 submitted: x, "+want, "")
	}
	submit("--gpus-per-task 2 --gpu 4").wants(t, exit.Misuse, "", "cannot be combined with --gpu or --gpus")
	cli(f.address, "run", "--gpu", "8", "-n", "2", "true").wants(t, exit.Misuse, "",
		"could mean 8 GPUs per task or in total")
}

// TestSubmitHeld checks that the submit itself holds the job, so that the job cannot start in between, and that a
// repeated request with the same ID does the same.
func TestSubmitHeld(t *testing.T) {
	f := startFake(t)
	cli(f.address, "submit", "--hold", "--cpu", "1", "--image", "host", "--request-id", "x", "--", "true").wants(t, 0,
		"Job jnew1 submitted and held: true, 1 CPU in total", "")
	cli(f.address, "submit", "--cpu", "1", "--image", "host", "--", "true").wants(t, 0, "Job jnew1 submitted: true", "")
	if sent := told[*messages.Submit](f); len(sent) != 2 || !sent[0].GetHold() || sent[1].GetHold() {
		t.Errorf("%v", sent)
	}
	for _, flags := range []string{"--wait", "--attach", "--dry-run"} {
		args := append([]string{"submit", "--hold", "--cpu", "1", "--image", "host"}, strings.Fields(flags)...)
		cli(f.address, append(args, "--", "true")...).wants(t, exit.Misuse, "", "--hold")
	}
}

// TestSeveralFiles checks that each -f is submitted in order, and that a mistake in the last file submits nothing.
func TestSeveralFiles(t *testing.T) {
	f := startFake(t)
	one, other := fileOf(t, "one.yaml", jobYAML), fileOf(t, "two.yaml", longerText(jobYAML))
	cli(f.address, "submit", "-f", one, "-f", other).wants(t, 0,
		"submitted: filed, 1 task of 2 GPUs\nJob jnew1 submitted: other, ", "")
	bad := fileOf(t, "bad.yaml", "kind: Job\n")
	cli(f.address, "submit", "-f", one, "-f", bad).wants(t, exit.Misuse, "", "bad.yaml:1:1: apiVersion")
	script := fileOf(t, "train.sh", "#!/bin/sh\n")
	cli(f.address, "submit", "-f", one, "-f", script).wants(t, exit.Misuse, "",
		"is a script: several -f require job files")
	if sent := told[*messages.Submit](f); len(sent) != 2 {
		t.Errorf("%d jobs are submitted", len(sent))
	}
	cli(f.address, "submit", "-f", one, "--gpu", "1").wants(t, exit.Misuse, "", "--gpu cannot be combined with a file")
}
