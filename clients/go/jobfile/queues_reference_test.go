package jobfile

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// This file tests and writes docs/reference/queues-yaml.md. The keys are those that queues.go reads.

const queuesPage = "../../../docs/reference/queues-yaml.md"

const queuesStart = `# queues.yaml

A queue file describes all queues of a cluster.
` + "`synapse-cli apply -f FILE`" + ` applies it, ` + "`apply --dry-run`" + ` shows its effect, and ` + "`get queues -o yaml`" + ` writes the current one.
The page [queues](../operate/queues.md) has examples, and explains quotas, limits and access.

- *Inherited* means that an unset key has the value of the parent queue.
- An *amount map* has amounts of ` + "`gpu`" + `, a GPU type such as ` + "`h100`, `cpu` and `memory`" + `.
  Resources that are not listed are not limited.
- An unknown key is an error with line, column and the nearest known key.

` + "`go test ./clients/go/jobfile -run QueuesPage -rewrite`" + ` writes this page from the code that reads queue files.
`

// queueText describes a key of a queue file.
type queueText struct{ meaning, format, unset string }

// queueTexts describes the keys in the order of the sections. A key that opens its own section has no text.
var queueTexts = []queueText{
	{"Version of the file format.", "`synapse/v1`", "required"},
	{"Kind of the document.", "`Queues`", "required"},
	{"Revision that the file replaces. If the current revision differs, `apply` fails with code 4.", "whole number",
		"the file replaces any revision"},
	{"Queue of jobs that do not name a queue.", "name", "such jobs are refused"},
	{"List of queues.", "list", "required"},
	{"Name of the queue.", "a-z, 0-9, '-'", "required"},
	{"Parent queue.", "name", "the queue has no parent"},
	{"Assured resources of the queue and its descendants.", "`{gpu: 256, h100: 64}`",
		"the queue shares the quota of its parent with its siblings"},
	{"Hard cap of the queue and its descendants.", "`{gpu: 512}`", "no cap"},
	{"Share of borrowed resources, relative to the sibling queues.", "whole number", "1"},
	{"Order of jobs in the queue.", "`expected`, `fifo`, `fair`", "inherited, else the cluster's order"},
	{"Node labels that every node of a job in this queue must have, in addition to those that the job " +
		"requires.", "`{pool: a}`", "inherited"},
	{"Caps for the jobs of each owner in this queue: an amount map, and the numbers of nodes, running jobs and " +
		"waiting jobs.",
		"`{gpu: 64, running: 500, waiting: 5000}`", "inherited"},
	{"Owners and groups that may submit jobs to this queue. If a parent queue also has a list, an owner must be in " +
		"both lists.", "`[ann, \"group:ml\"]`", "all users"},
	{"Time limit of jobs that do not set one; 0 means no limit.", "span", "inherited, else the maximum"},
	{"Highest time limit that a job may set.", "span", "inherited, else no maximum"},
	{"Priority of jobs that do not set one.", "whole number", "inherited, else 0"},
	{"Highest priority that a job may set.", "whole number", "inherited, else no maximum"},
	{"Preemption of jobs with lower priority in the same queue.", "`true`, `false`", "inherited, else false"},
	{"Preemption of jobs in other queues that use more than their quota.", "`true`, `false`", "inherited, else false"},
	{"Preemption of jobs in the same queue that are expected to run much longer.", "`true`, `false`",
		"inherited, else false"},
	{"Minimum run time before a job of this queue can be preempted.", "span", "inherited, else 10m (1h for `shortest`)"},
	{"Longest time to save that a job may set (`checkpoint.grace`).", "span", "inherited, else 1h"},
	{"Time after which a running job that is known to do nothing is reported; at least 1m.", "span",
		"inherited, else 30m"},
	{"Action for such a job: an event, or an event and a [notice](../jobs/resource-use.md) to the tasks.",
		"`report`, `signal`", "inherited, else `report`"},
}

// TestQueuesPage checks that the page describes each key of a queue file, and no other key.
func TestQueuesPage(t *testing.T) {
	all := queuesFile().sections
	isSection := map[string]bool{"queues": false}
	for _, s := range all {
		isSection[s.path] = true
	}
	page, n := queuesStart, 0
	for _, s := range all {
		title := "Top level"
		if s.path != "" {
			title = "`" + s.path + "`"
		}
		page += "\n## " + title + "\n\n| key | meaning | format | if unset |\n|---|---|---|---|\n"
		for _, k := range s.keys {
			if k.read == nil || isSection[join(s.path, k.name)] {
				continue
			}
			if n++; n <= len(queueTexts) {
				text := queueTexts[n-1]
				page += fmt.Sprintf("| `%s` | %s | %s | %s |\n", k.name, text.meaning, text.format, text.unset)
			}
		}
	}
	if n != len(queueTexts) {
		t.Fatalf("%d keys have %d texts", n, len(queueTexts))
	}
	page = strings.ReplaceAll(page, "queues[]", "queues")
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(queuesPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(queuesPage); err != nil || string(text) != page {
		t.Errorf("docs/reference/queues-yaml.md is not what the code reads (%v): run it with -rewrite", err)
	}
}
