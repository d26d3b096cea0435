package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/test/page"
)

// This file tests that examples/ work.

// exampleSays holds the output of each example's job.
var exampleSays = map[string]string{
	"cpu-sweep": "[15] share 15 of 16\n", "single-gpu": " runs on node-", "allreduce": "[0] ",
	"total-gpus": "[1] task 1 of 2 has GPUs 0,1,2,3,4,5,6,7 of node-",
}

// elsewhere lists the examples whose commands other tests run, and the reason.
var elsewhere = map[string]string{
	"pytorch":    "world.TestPyTorch types them",
	"checkpoint": "world.TestFirstGang types the tutorial that uses it",
	"saves":      "world.TestPreemptedTraining trains it",
	"torchrun":   "it is for machines of a real size: what its reader sees is checked with the job files",
}

// TestExamplesRun runs the commands at the head of each example, on a cluster of `up`, in the directory that README
// uses.
func TestExamplesRun(t *testing.T) {
	l := up(t, "--nodes", "8", "--gpus", "8", "--listen", "127.0.0.1:0")
	l.ready(8, 64, 1)
	home := filepath.Join(l.dir, "clone")
	if err := os.CopyFS(filepath.Join(home, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "train.sh"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob(filepath.Join(home, "examples", "*.yaml"))
	if err != nil || len(all) != len(exampleSays)+len(elsewhere) {
		t.Fatalf("unexpected examples: %q (%v)", all, err)
	}
	for _, path := range all {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		if elsewhere[name] != "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, line := range page.Commands(string(text)) {
			said += l.types(home, line)
		}
		if want, ok := exampleSays[name]; !ok || !strings.Contains(said, want) {
			t.Errorf("%s wrote %q, want %q", path, said, want)
		}
	}
	for _, id := range strings.Fields(l.cli("get", "jobs", "-q").wants(t, 0, "", "").out) {
		l.cli("wait", id)
	}
	const room = " could be submitted: it would start now\n"
	l.cli("submit", "../../examples/pytorch.yaml", "--dry-run=server").wants(t, 0, "pytorch"+room, "")
	l.cli("submit", "../../examples/checkpoint.yaml", "--dry-run=server").wants(t, 0, "first-gang"+room, "")
	l.cli("submit", "../../examples/saves.yaml", "--dry-run=server").wants(t, 0, "saves"+room, "")
}

// types runs a line in the root of the clone, and returns its output. Programs are built from the repository itself.
func (l *local) types(home, line string) string {
	l.t.Helper()
	dir, ends := home, ""
	if strings.HasPrefix(line, "go build ") {
		dir, line = "../..", strings.Replace(line, " bin/", " "+home+"/bin/", 1)
	}
	if strings.Contains(line, " --attach") {
		ends = "succeeded"
	}
	cmd := l.command("sh", "-c", line)
	cmd.Dir, cmd.Env = dir, append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	r := ask(l.t, cmd)
	r.wants(l.t, 0, "", ends)
	return r.out
}
