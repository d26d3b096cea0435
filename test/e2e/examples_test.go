package e2e

import (
	"testing"
	"time"
)

// This file owns that examples/ can be believed.

// TestExamplesRun: what needs nothing but a cluster runs on one of `up` as it is, and what needs a program on the
// machines has
// room there. torchrun.yaml is for machines of a real size: what its reader sees is checked with the job files.
func TestExamplesRun(t *testing.T) {
	l := up(t, "--nodes", "8", "--gpus", "8", "--listen", "127.0.0.1:0")
	l.ready(8, 64, 1)
	for name, says := range map[string]string{
		"cpu-sweep": "[15] share 15 of 16\n", "single-gpu": " runs on node-", "total-gpus": "[1] task 1 of 2 has GPUs 0,1,2,3,4,5,6,7 of node-",
	} {
		began := time.Now()
		l.cli("submit", "../../examples/"+name+".yaml", "--attach").wants(t, 0, says, "succeeded")
		t.Logf("%s took %s", name, time.Since(began).Round(time.Millisecond))
	}
	for _, name := range []string{"allreduce", "pytorch"} {
		l.cli("submit", "../../examples/"+name+".yaml", "--dry-run=server").wants(t, 0, name+" could be submitted: there is room for it now\n", "")
	}
}
