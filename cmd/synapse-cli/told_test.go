package main

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file checks that messages are correct.

// TestToldAsItIs checks that a finished job is not reported as being cancelled, and that all named nodes are
// processed. Errors must suggest the most likely name, and must not contain the words of a library.
func TestToldAsItIs(t *testing.T) {
	f := startFake(t)
	gone := job("j1", "cancelled", messages.JobState_JOB_STATE_CANCELLED)
	f.jobs = []*messages.JobStatus{gone, job("j2", "running", messages.JobState_JOB_STATE_ACTIVE)}
	f.nodes = []*messages.NodeStatus{machine("n8"), machine("n9")}
	cli(f.address, "cancel", "j1", "j2").wants(t, 0, "Job j1 has already ended: cancelled\nJob j2 is being cancelled\n",
		"")
	cli(f.address, "uncordon", "nosuch", "n8", "none", "n9").wants(t, exit.NotFound,
		"Node n8 schedulable again\nNode n9 schedulable again\n",
		"unknown node \"none\"\nsynapse-cli: unknown node \"nosuch\"")
	for args, want := range map[string]string{
		"pu": "did you mean `synapse-cli up`?", "ps": "did you mean `synapse-cli get jobs`?",
		"get jbos":    "did you mean `synapse-cli get jobs`?",
		"get nods":    "did you mean `synapse-cli get nodes`?",
		"explain a b": "synapse-cli explain accepts one job, got 2",
	} {
		r := cli(f.address, strings.Fields(args)...)
		r.wants(t, exit.Misuse, "", want)
		if strings.Contains(r.err, "arg(s)") {
			t.Errorf("%s: %s", args, r.err)
		}
	}
}
