package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file checks that a job is listed and found by its given name.

func called(id, given string) *messages.JobStatus {
	j := job(id, "running", messages.JobState_JOB_STATE_ACTIVE)
	j.Record.Spec.Call(given)
	return j
}

// TestSubmitByGivenName checks that each way to name a job sends the given name and the derived one.
func TestSubmitByGivenName(t *testing.T) {
	f := front(t)
	dir := t.TempDir()
	file, script := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "x.sh")
	for path, text := range map[string]string{
		file:   "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: Train_B.1}\nspec: {image: /i}\n",
		script: "#!/bin/sh\n#SBATCH -J Train_B.1\ntrue\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"submit", "--name", "Train_B.1", "--image", "/i"}, {"submit", file},
		{"slurm", "sbatch", "-J", "Train_B.1", "--wrap", "true"}, {"slurm", "sbatch", script},
	} {
		cli(f.address, args...).wants(t, 0, "", "")
	}
	sent := told[*messages.Submit](f)
	for _, q := range sent {
		if q.GetSpec().GetName() != "train-b-1" || q.GetSpec().GetTitle() != "Train_B.1" {
			t.Errorf("sent is %q, called %q", q.GetSpec().GetName(), q.GetSpec().GetTitle())
		}
	}
	if len(sent) != 4 {
		t.Errorf("%d are sent", len(sent))
	}
	cli(f.address, "submit", "--name", "a b", "--image", "/i").wants(t, exit.Misuse, "", `--name: "a b" is not a name`)
	cli(f.address, "submit", file, "--dry-run").wants(t, 0, "name: Train_B.1\n", "")
	cli(f.address, "slurm", "sbatch", "-J", "my job", "--wrap", "true").wants(t, 0, "", "")
	if last := told[*messages.Submit](f)[4].GetSpec(); last.GetName() != "my-job" || last.GetTitle() != "" {
		t.Errorf("a name with other letters becomes %q, called %q", last.GetName(), last.GetTitle())
	}
}

// TestFoundByGivenName checks that lists show and match the given name exactly: a name with another case is another
// job.
func TestFoundByGivenName(t *testing.T) {
	a := startArrays(t)
	a.all = append(a.all, called("jb", "TrainB"), called("jc", "trainb"), called("jd", "train_5"), called("je", "X_5"))
	a.fake.jobs = a.all
	n := messages.NumericID
	for args, want := range map[string]string{
		"get jobs TrainB -q": "jb\n", "get jobs trainb -q": "jc\n", "get jobs X_5 -q": "je\n", "get jobs": "TrainB",
		"get jobs train_5 -q": "jarr_5\n", "get job jb -o yaml": "name: TrainB\n", "describe job jb": "TrainB",
		"slurm squeue -h -n TrainB -o %i,%j": n("jb") + ",TrainB\n", "slurm squeue -h -n trainb -o %i": n("jc") + "\n",
		"slurm sacct -n -a -X -P -o JobID --name TrainB": n("jb") + "\n",
	} {
		r := a.does(scopeVerb{args: args}, "")
		if r.code != 0 || !strings.Contains("\n"+r.out, want) || strings.HasSuffix(args, "-q") && r.out != want {
			t.Errorf("%s: %d, %s%s", args, r.code, r.out, r.err)
		}
	}
	a.does(scopeVerb{args: "get jobs TRAINB"}, "").wants(t, exit.NotFound, "", "")
	a.does(scopeVerb{args: "cancel X[5]"}, "").wants(t, exit.Misuse, "", `"X[5]"`)
	for args, want := range map[string]string{
		"slurm scancel -n TrainB": "jb", "cancel X_5": "je", "cancel TrainB": "jb", "cancel train_5": "jarr_5",
	} {
		r := a.does(scopeVerb{args: args}, "")
		if ended := byField[*messages.Cancel](a, r); len(ended) != 1 || ended[0] != want {
			t.Errorf("%s ends %v, want %s (%s)", args, ended, want, r.err)
		}
	}
}
