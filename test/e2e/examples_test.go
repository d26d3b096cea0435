package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// This file owns that examples/ can be believed.

// TestExamplesRun: every example runs on a cluster of `up` as it is, submitted where README has its reader stand;
// PyTorch does in `make world`. torchrun.yaml is for machines of a real size: what its reader sees is checked with the
// job files.
func TestExamplesRun(t *testing.T) {
	l := up(t, "--nodes", "8", "--gpus", "8", "--listen", "127.0.0.1:0")
	l.ready(8, 64, 1)
	home := filepath.Join(l.dir, "clone")
	if err := os.CopyFS(filepath.Join(home, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(home, "bin", "synapse-allreduce"),
		"../../examples/allreduce")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for name, says := range map[string]string{
		"cpu-sweep": "[15] share 15 of 16\n", "single-gpu": " runs on node-",
		"total-gpus": "[1] task 1 of 2 has GPUs 0,1,2,3,4,5,6,7 of node-",
		"allreduce":  "[0] ",
	} {
		began := time.Now()
		submit := l.command(filepath.Join(bin, "synapse-cli"), "submit", "examples/"+name+".yaml", "--attach")
		submit.Dir = home
		ask(t, submit).wants(t, 0, says, "succeeded")
		t.Logf("%s took %s", name, time.Since(began).Round(time.Millisecond))
	}
	const room = "pytorch could be submitted: there is room for it now\n"
	l.cli("submit", "../../examples/pytorch.yaml", "--dry-run=server").wants(t, 0, room, "")
}
