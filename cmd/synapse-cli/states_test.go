package main

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/yi-json/synapse/cmd/internal/manual"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
)

// This file writes docs/reference/states.md, with the words of the commands, from the code.

const statesPage = "../../docs/reference/states.md"

const statesStart = `# States, causes and exit codes

Commands, the web UI and the JSON output use the words on this page.
[explain](cli/explain.md) shows why a job waits.
The [internal states of all actors](../contribute/states.md) are for contributors.
` + "`go test ./cmd/synapse-cli -run StatesPage -rewrite`" + ` writes this page.

## Phases of a job

` + "`get jobs`" + ` shows the phase in the column PHASE. The flag ` + "`--phase`" + ` selects jobs by phase.

`

// phaseTexts describes the phases of a job in order.
var phaseTexts = []string{
	"The job waits, and its reason explains why.",
	"The job waits until it is released.",
	"The chosen nodes reserve resources for the tasks. If a node refuses, all reservations are released, and the " +
		"job is queued again.",
	"The placement is being written to disk.",
	"The nodes prepare images and containers. Then all tasks start together.",
	"All tasks have started.",
	"The attempt has ended, and its tasks are being stopped.",
	"The result is being written to disk.",
	"The record of the job is corrupted. Its tasks continue, and the only possible change is `cancel`.",
	"All tasks exited with code 0.",
	"A task failed after the last allowed restart, or the job could not start.",
	"A user cancelled the job, or a job that it depends on (`--after`) did not end as required.",
	"The job reached its time limit.",
}

// nodeTexts describes the states of a node. Each has an example node.
var nodeTexts = []struct {
	node *messages.NodeStatus
	text string
}{
	{&messages.NodeStatus{Phase: messages.NodeUp}, "The node is reachable and accepts jobs."},
	{drainedNode(true), "An operator drains the node. No job starts there, but some allocations have not ended yet."},
	{drainedNode(false), "An operator has drained the node, and all allocations on it have ended."},
	{&messages.NodeStatus{Phase: messages.NodeUp, Closed: "x", Record: &messages.NodeRecord{Cordoned: &messages.Deed{}}},
		"The node is marked unschedulable, by an operator or after repeated launch failures. Running jobs continue."},
	{&messages.NodeStatus{Phase: messages.NodeUp, Closed: "benched"},
		"The node gets no jobs for some time, because a reservation or a launch failed there."},
	{&messages.NodeStatus{Phase: messages.NodeUp, Closed: "x"},
		"The node gets no jobs for a reason that the column REASON shows: unhealthy, quarantined, or a full disk."},
	{&messages.NodeStatus{Phase: messages.NodeDead},
		"The node has sent nothing for 10 s. Its gangs start again on other nodes."},
	{&messages.NodeStatus{Phase: messages.NodeUnknown},
		"The node has not reported since the current scheduler took over."},
}

func drainedNode(busy bool) *messages.NodeStatus {
	n := &messages.NodeStatus{Phase: messages.NodeUp, Closed: "x", Record: &messages.NodeRecord{Drained: &messages.Deed{}}}
	if busy {
		n.Ledger = &messages.LedgerReport{Slices: []*messages.SliceReport{{}}}
	}
	return n
}

// causeTexts describes the causes of an attempt's end in order, with the consequence of each.
var causeTexts = [][2]string{
	{"All tasks exited with code 0.", "The job has succeeded."},
	{"A task exited with another code, was killed, ran out of memory, or exceeded its disk limit.", "Job failure"},
	{"A node of the gang was lost, or its agent returned without the tasks.", "Cluster failure"},
	{"A reservation expired before the start.", "Cluster failure"},
	{"The tasks did not all start in time.", "Cluster failure"},
	{"An image, mount, user or script could not be prepared.", "Preparation failure"},
	{"An image was not ready within `prepareTimeout`.", "Preparation failure"},
	{"A container or process could not be created.", "Preparation failure"},
	{"A node of the gang was rebooted.", "Cluster failure"},
	{"A user cancelled the job.", "The job is cancelled."},
	{"The job reached its time limit.", "The job has timed out."},
	{"A drain reached its deadline.", "Cluster failure"},
	{"An operator removed a node of the gang.", "Cluster failure"},
	{"The job was preempted for another job.", "Back to the queue"},
	{"A GPU of the gang failed.", "Cluster failure"},
	{"A user requeued the job.", "Back to the queue"},
	{"A backfilled gang did not start before the reservation began.", "Back to the queue"},
	{"A health check of a node failed before the start.", "Back to the queue"},
}

const causesStart = `
## Causes of the end of an attempt

` + "`describe job`" + ` shows the cause of each attempt.

- *Job failure* uses one restart of ` + "`restart.limit`" + `. If no restart is left, the job fails with the exit code of the task.
- *Cluster failure* returns the job to its place in the queue, up to 100 times.
- *Preparation failure* fails the job at once if the job is at fault, and counts as a cluster failure if the node is at fault.
  If the fault is unclear, the scheduler retries with increasing delays, and the job fails after at least four failures on two nodes.
  One node is enough if no other node can run the job.
- *Back to the queue* does not count as a failure.

| cause | meaning | result |
|---|---|---|
`

const taskCodes = `
## Exit codes of tasks

` + "`describe job`" + ` shows the exit code of each task.

| code | meaning |
|---|---|
| 0 to 255 | The exit code of the command. |
| 125 | The container could not be created. |
| 126 | The command is not executable. |
| 127 | The command was not found in the image. |
| 128 + N | Signal N ended the task. |
| 137 | The task was killed: out of memory, over its disk limit, or still running after the grace period. ` + "`describe`" + ` shows the cause. |

## Exit codes of commands

| code | meaning |
|---|---|
`

// pageOfStates returns the page.
func pageOfStates(t *testing.T) string {
	if len(phaseTexts) != len(messages.Phases) || len(causeTexts) != len(messages.Cause_name)-1 {
		t.Fatalf("%d phases have %d texts, %d causes have %d", len(messages.Phases), len(phaseTexts),
			len(messages.Cause_name)-1, len(causeTexts))
	}
	page := statesStart + "| phase | meaning |\n|---|---|\n"
	for i, phase := range messages.Phases {
		page += fmt.Sprintf("| `%s` | %s |\n", phase, phaseTexts[i])
	}
	page += "\n## States of a node\n\n`get nodes` shows the state in the column STATE, and REASON has the details.\n\n" +
		"| state | meaning |\n|---|---|\n"
	var words []string
	for _, s := range nodeTexts {
		word := renamed.Word(renamed.NodeState, messages.ConditionOf(s.node))
		if slices.Contains(words, word) {
			t.Errorf("the state %s has two texts", word)
		}
		words = append(words, word)
		page += fmt.Sprintf("| `%s` | %s |\n", word, s.text)
	}
	page += causesStart
	for i, text := range causeTexts {
		cause := renamed.Word(renamed.Cause, messages.Word(messages.Cause_name[int32(i+1)], "CAUSE_"))
		page += fmt.Sprintf("| `%s` | %s | %s |\n", cause, text[0], text[1])
	}
	page += taskCodes
	for _, text := range exit.Texts() {
		page += "| " + text.Code + " | " + text.Meaning + " |\n"
	}
	return page + "\n" + manual.Markdown(exit.JobCodes)
}

// TestStatesPage checks that the page has all words of the code, each with a text.
func TestStatesPage(t *testing.T) {
	want := pageOfStates(t)
	if *rewrite {
		if err := os.WriteFile(statesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(statesPage); err != nil || string(text) != want {
		t.Error("docs/reference/states.md: go test ./cmd/synapse-cli -run StatesPage -rewrite")
	}
}
