package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file tests `apply`, and queues in `get` and `describe`.

const someQueues = `apiVersion: synapse/v1
kind: Queues
default: nlp
queues:
- {name: nlp, quota: {gpu: 8}, weight: 3}
- {name: vision, quota: {gpu: 4, h100: 2}, limit: {gpu: 16}, timeLimit: {max: 24h}}
- {name: papers, parent: nlp}
`

// TestApply checks that `get queues -o yaml` returns the applied queues, with their revision, as a file that can be
// applied again.
func TestApply(t *testing.T) {
	f := startFake(t)
	file := filepath.Join(t.TempDir(), "queues.yaml")
	if err := os.WriteFile(file, []byte(someQueues), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(f.address, "describe", "queue", "nlp").wants(t, exit.NotFound, "", "no queues are configured")
	cli(f.address, "apply", "-f", file, "--dry-run").wants(t, 0, "dry run: queues would be applied (revision 1)\n",
		"queue old is closed: the file does not contain the queue, which still has jobs")
	cli(f.address, "apply", "-f", file).wants(t, 0, "queues applied (revision 1)\n", "")
	ran := cli(f.address, "get", "queues", "-o", "yaml")
	for _, line := range []string{"revision: 1", "default: nlp", "quota: {gpu: 4, h100: 2}", "timeLimit: {max: 24h}"} {
		if !strings.Contains(ran.out, line) {
			t.Errorf("%q is not in\n%s", line, ran.out)
		}
	}
	if err := os.WriteFile(file, []byte(ran.out), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(f.address, "apply", "-f", file).wants(t, 0, "queues applied (revision 2)\n", "")
	sent := told[*messages.ApplyQueues](f)
	if len(sent) != 3 || !sent[0].DryRun || sent[1].Revision != 0 || sent[2].Revision != 1 ||
		sent[1].Queues.String() != sent[2].Queues.String() {
		t.Errorf("sent were\n%v", sent)
	}
	f.refusal = &messages.Outcome{Code: messages.Code_CODE_CONFLICT, Field: "revision", Text: "another revision is there"}
	cli(f.address, "apply", "-f", file).wants(t, exit.Conflict, "", "another revision is there")
	f.refusal = nil
	cli(f.address, "apply").wants(t, exit.Misuse, "", "-f is missing")
	cli(f.address, "apply", "-f", "none.yaml").wants(t, exit.Misuse, "", "none.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(someQueues, "parent: nlp", "parent: nlpp", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	cli(f.address, "apply", "-f", file).wants(t, exit.Misuse, "", ":7:26: queues[2].parent")
}

// TestQueueTable checks that the usage of a queue counts in its ancestors, that usage above the quota is borrowed,
// and that an unconfigured queue with jobs is closed.
func TestQueueTable(t *testing.T) {
	f := startFake(t)
	file := filepath.Join(t.TempDir(), "queues.yaml")
	if err := os.WriteFile(file, []byte(someQueues), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(f.address, "apply", "-f", file).wants(t, 0, "queues applied (revision 1)\n", "")
	for i, queue := range []string{"papers", "nlp", "", "vision", "old"} {
		j := job("j"+string(rune('a'+i)), "running", messages.JobState_JOB_STATE_ACTIVE)
		j.Record.Spec.Queue = queue
		j.Record.Spec.Gang, j.Record.Spec.Each = &messages.GangSpec{ReplicasMin: 1}, &messages.Resources{MilliGpu: 4000}
		f.put(j)
	}
	j := job("jz", "queued", messages.JobState_JOB_STATE_QUEUED)
	j.Record.Spec.Queue = "papers"
	f.put(j)
	cli(f.address, "get", "queues").wants(t, 0, `QUEUE    QUOTA  USE  SHARE  BORROWED  WAITING
nlp          8   12    75%         4        1
vision       4    4    25%         0        0
papers       -    4   100%         -        1
old     closed    4      -         4        0
`, "")
	cli(f.address, "describe", "queue", "vision").wants(t, 0, `Queue:        vision
Quota:        {gpu: 4, h100: 2}
Limit:        {gpu: 16}
TimeLimit:    {max: 24h}
Owners:       all users
Share:        25% of the resources that the queue and its siblings borrow
Use:          gpu 4, cpu 0, memory 0
Jobs:         1 running, 0 waiting, 0 held
Applied:      revision 1, by nobody
`, "")
	cli(f.address, "describe", "queue", "old").wants(t, 0, "", "")
	cli(f.address, "describe", "queue", "visoin").wants(t, exit.NotFound, "", "vision")
}
