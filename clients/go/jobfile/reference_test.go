package jobfile

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests and writes docs/reference/job-file.md: its introduction, the texts of reference.go, and the
// default memory.

const referencePage = "../../../docs/reference/job-file.md"

// referenceStart returns the introduction of the page.
func referenceStart() string {
	return fmt.Sprintf(`# Job file

A job file describes one or more jobs in YAML or JSON.
`+"`synapse-cli submit FILE`"+` submits it, and `+"`submit --dry-run`"+` checks it.

`+"```text"+`
apiVersion: synapse/v1
kind: Job
metadata: {name: train}
spec:
  gang: {replicas: 2}
  resources: {gpu: 8, cpu: 64, memory: 512Gi}
  image: host
  command: [torchrun, train.py]
`+"```"+`

- A file with several documents submits several jobs.
  All documents are checked before the first job is sent.
- Standard input can have any number of documents.
  They are [submitted one by one](../jobs/submit-and-watch.md#submit).
- A file has at most %s, %d documents and %d levels of nesting.
- An unknown key is an error with line, column and the nearest known key.
- The output of `+"`get job JOB -o yaml`"+` is a valid job file.
  The keys `+"`status`, `metadata.id`, `metadata.owner`, `metadata.requestId` and `metadata.revision`"+` are ignored.
- A *span* is a time such as `+"`90s`, `5m`, `1h30m`, `2d` or `24:00:00`"+`, up to %s.
- A *size* is a number of bytes with a unit, such as `+"`64Gi`"+` (Ki, Mi, Gi, Ti, Pi).
- The client resolves `+"`begin`, `after` and `secrets`"+` when it submits the file.

Related pages: [environment of a task](environment.md), [data and images](../jobs/data.md), [launchers](../jobs/launchers.md),
[queues](../operate/queues.md), [placement](../explain/placement.md), [preemption](../explain/preemption.md).

`+"`go test ./clients/go/jobfile -run TestReference -rewrite`"+` writes this page from the code that reads job files.
`, FormatBytes(MaxBytes), maxDocuments, maxDepth, FormatDuration(messages.MaxDurationMs))
}

// reference returns the page.
func reference() string {
	var page strings.Builder
	page.WriteString(referenceStart())
	for _, s := range Reference() {
		title := "Top level"
		if s.Path != "" {
			title = "`" + s.Path + "`"
		}
		page.WriteString("\n## " + title + "\n\n| key | meaning | format | default | limit |\n|---|---|---|---|---|\n")
		for _, k := range s.Keys {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.Meaning, k.Format, k.Default, k.Limit)
		}
	}
	page.WriteString(defaultMemory)
	return page.String()
}

const defaultMemory = `
## Default memory

A task without ` + "`memory`" + ` gets a share of the memory of a node:

- On a node without GPUs, the share follows the CPUs: a quarter of the CPUs gets a quarter of the memory.
- On a node with GPUs, half of the memory is divided by the CPUs and the other half by the GPUs.
  A task with all GPUs and almost no CPUs gets half of the memory.

If nodes of several kinds can run the task, the smallest share applies.
Only nodes that match the GPU type, the node selector and the named nodes of the job are considered.
The share is rounded down to a full Mi.
For a total, the share is computed per GPU, or per core if the total has no GPUs.
If no known node can hold the task (` + "`submit --allow-infeasible`" + `), the default is 1Gi per CPU and 4Gi per GPU.

The scheduler computes the share at submit and stores it with the job.
It is the same in all attempts, even if other nodes join later.
` + "`describe`" + ` and the key ` + "`memoryByDefault`" + ` of ` + "`get job -o yaml`" + ` mark such a default.
To get another amount, set ` + "`memory`" + `.
If one small node makes the share too small, exclude that node.
`

// TestReference: the texts describe each key that is read and no other key, and the page has these texts. The test
// shares the -rewrite flag of the golden refusals.
func TestReference(t *testing.T) {
	described := map[string]bool{}
	for _, s := range Reference() {
		for _, k := range s.Keys {
			described[join(s.Path, k.Name)] = true
		}
	}
	for _, s := range sections() {
		for _, k := range s.keys {
			path := join(s.path, k.name)
			isSection := slices.ContainsFunc(sections(), func(o section) bool { return o.path == path })
			if described[path] != (k.read != nil && !isSection) {
				t.Errorf("%s: in the reference %v", path, described[path])
			}
		}
	}
	texts := slices.Concat(topTexts(), placementTexts(), programTexts(), accessTexts(), timeTexts(), gangTexts(),
		nestedTexts())
	for _, text := range texts {
		if !described[text.Name] {
			t.Errorf("%s is in the reference, and is no key", text.Name)
		}
	}
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(referencePage, []byte(reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(referencePage); err != nil || string(now) != reference() {
		t.Errorf("docs/reference/job-file.md is not what the code reads (%v): run it with -rewrite", err)
	}
}
