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

// This file owns the reference of the job file, docs/reference/job-file.md: what is said of each
// key. The keys themselves are those that are read (sections.go).

// about is what the reference says of a key.
type about struct {
	form    string // how its value is written
	none    string // what holds where it is left out
	limit   string
	what    string
	drivers string // which ones honour it, where that is not all
}

const (
	anAmount = "64Gi (Ki, Mi, Gi, Ti, Pi)"
	aTime    = "90s, 5m, 1h30m, 2d, 24:00:00"
	aMoment  = "2026-11-24T08:00:00Z, 2026-11-24T08:00, 08:00 (the next), now+2h"
	aName    = "a-z, 0-9, '-'"
	labelMap = "{key: value}"
)

func references() map[string]about {
	upTo := func(n int64) string { return fmt.Sprintf("up to %d", n) }
	years := "up to " + FormatDuration(messages.MaxDurationMs)
	gpus, cpus, memory := upTo(messages.MaxMilliGPU/1000), upTo(messages.MaxMilliCPU/1000), "up to "+
		FormatBytes(messages.MaxMemoryBytes)
	names := fmt.Sprintf("1 to %d letters", messages.MaxNameBytes)
	const contained = "carapace, oci; process has the machine's own"
	const mostOfDisk = "most that each task may keep on the machine's disk, in its scratch directory and writable " +
		"layer; one that keeps more ends, told as disk"
	return map[string]about{
		"apiVersion": {"synapse/v1", "must be there", "", "the version of this format", ""},
		"kind":       {"Job", "must be there", "", "what the document describes", ""},
		"metadata.name": {"letters, digits, '.', '_', '-'", "must be there",
			fmt.Sprintf("1 to %d letters", messages.MaxTitleBytes), "what the job is called; it need not be the only one", ""},
		"metadata.labels": {labelMap, "none", upTo(messages.MaxLabels), "by which `-l` finds it", ""},
		"spec.queue":      {aName, "none", names, "the queue that it waits in", ""},
		"spec.priority": {"a whole number", "its queue's, else 0", fmt.Sprintf("±%d", messages.MaxPriority),
			"higher goes first", ""},
		"spec.gang.replicas": {"a whole number", "1", fmt.Sprintf("1 to %d", messages.MaxGangTasks),
			"how many tasks of `resources`, all at once or none", ""},
		"spec.gang.split": {"whole, any", "whole", "",
			"how a total is split: whole machines and one remainder, or whatever is free", ""},
		"spec.gang.apart":     {"true, false", "false", "", "of replicas: each on a machine of its own", ""},
		"spec.gang.total.gpu": {"8", "none", "whole GPUs", "a total in place of `replicas`: one task per machine", ""},
		"spec.gang.total.cpu": {"512, 0.5, 500m", "none",
			"", "cores in total, split in proportion to the GPUs, or by themselves", ""},
		"spec.gang.total.memory": {anAmount, "likewise", "", "memory in total, likewise", ""},
		"spec.resources.gpu":     {"8, 0.5", "none", gpus, "GPUs of each task; a part of one only for a single task", ""},
		"spec.resources.gpuType": {"h100", "any", names, "only this type of GPU", ""},
		"spec.resources.cpu": {"64, 0.5, 500m", "1 if `gpu` and `memory` are left out too", cpus, "cores of each task",
			"a limit: carapace, oci; booked everywhere"},
		"spec.resources.memory": {anAmount, "its share of a machine: see below",
			FormatBytes(messages.MinTaskMemoryBytes) + " " + strings.TrimPrefix(memory, "up "), "memory of each task",
			"a limit: carapace, oci; booked everywhere"},
		"spec.resources.shm": {anAmount, "half of the memory", "the task's memory",
			"/dev/shm of each task, out of its memory", contained},
		"spec.resources.disk": {anAmount, "a tenth of what is free", memory, mostOfDisk, "process: scratch only"},
		"spec.topology.required": {"zone, rack, node, …", "anywhere", "a level of the cluster",
			"all tasks within one of this level", ""},
		"spec.preemptible": {"true, false", "true", "",
			"whether it may be stopped for others, where its queue allows that; if not, it runs only within the quota of its " +
				"queue (../explain/preemption.md)", ""},
		"spec.checkpoint": {aTime, "never", years,
			"how often it saves its work: no more than that is lost if it is stopped for another " +
				"(../explain/preemption.md)", ""},
		"spec.topology.preferred": {"zone, rack, node, …", "as close as possible", "a level of the cluster",
			"all tasks best within one of this level", ""},
		"spec.topology.patience": {aTime, "0", years, "how long the preferred level is waited for", ""},
		"spec.nodeSelector": {labelMap, "any machine", upTo(messages.MaxLabels),
			"only machines with all of these labels, or that stand there (`zone: a`)", ""},
		"spec.nodes": {"[n1, n2]", "any machine", upTo(messages.MaxNamedMachines),
			"only these machines: a gang has some of them, or all", ""},
		"spec.exclude": {"[n3]", "none", upTo(messages.MaxNamedMachines), "never these machines", ""},
		"spec.image": {"host, /a/directory, a.tar, oci:…, a reference", "must be there",
			fmt.Sprintf("%d bytes", messages.MaxPathBytes), "what the tasks see as their root", "process: host only"},
		"spec.command": {"[program, argument]", "the image's own",
			fmt.Sprintf("%d arguments, %s", messages.MaxCommandArgs, FormatBytes(messages.MaxCommandBytes)),
			"what each task runs; must be there with the image `host`", ""},
		"spec.script": {"a text that begins with #!", "none", FormatBytes(messages.MaxScriptBytes),
			"a file that each task runs a copy of, in place of a command; `submit SCRIPT` writes it", ""},
		"spec.scriptName": {"train.sh", messages.DefaultScriptName, fmt.Sprintf("1 to %d letters",
			messages.MaxScriptNameBytes), "what that file is called", ""},
		"spec.args": {"[argument]", "none", fmt.Sprintf("%d arguments, %s", messages.MaxCommandArgs,
			FormatBytes(messages.MaxCommandBytes)), "what the script is handed", ""},
		"spec.workdir": {"/an/absolute/path",
			"the image's; with `host` where it was submitted, if the task's user can enter that; else the scratch directory",
			fmt.Sprintf("%d bytes", messages.MaxPathBytes), "where it begins", ""},
		"spec.user": {"a name or a number of the machine",
			"a uid of the job's own: name a user where jobs share files", fmt.Sprintf("%d bytes", messages.MaxIDBytes),
			"whom the tasks run as; root is that of the task's container alone, and a uid of the job's own in the machine's " +
				"directories", ""},
		"spec.network": {"host, none, private", "host", "private: jobs of one machine",
			"what the tasks reach: all that the machine does, nothing, or what is outside of it (runtime.md)",
			"none, private: carapace, oci"},
		"spec.launcher": {strings.Join(messages.LaunchWords(), ", "), "auto", "",
			"what starts the processes of a task; by it the task finds the words in its environment (../jobs/launchers.md)", ""},
		"spec.env": {"{NAME: value}", "none", FormatBytes(messages.MaxEnvBytes) + " in all",
			"variables; SYNAPSE_* and those of GPUs are refused (environment.md)", ""},
		"spec.secrets": {"[{name, env, fromFile, fromEnv}]", "none", upTo(messages.MaxSecrets) + ", 64Ki in all",
			"what nobody else is to see: a file in /run/secrets, or with `env: true` a variable; its value comes from a " +
				"file or a variable where it is submitted, or from `--secret`, and is asked for again by `--from` (operations.md)",
			"files: carapace, oci; variables: carapace, process"},
		"spec.mounts": {"[{source, target, readOnly}]", "none", upTo(messages.MaxMounts),
			"files or directories of the machine", "process: at their own path, writable"},
		"spec.array": {"0-99%10, 0-9:2, 1,5,7", "one job", fmt.Sprintf("%d elements", messages.MaxElements),
			"one job for each index, after % so many at once at most; `SYNAPSE_ARRAY_INDEX` tells which", ""},
		"spec.after": {"[train-7f, prep:any]", "none", upTo(256),
			"only after these jobs have ended: `:ok` (succeeded, as without a word), `:failed` (otherwise), `:any`", ""},
		"spec.begin": {aMoment, "at once", "a year ahead",
			"not planned before, by the scheduler's clock; what is past is now", ""},
		"spec.timeLimit": {aTime, "the cluster's default, where it has one", years,
			"ends an attempt this long after its start", ""},
		"spec.prepareTimeout": {aTime, "30m", years, "how long images may take", ""},
		"spec.stop.signal":    {"SIGTERM, TERM, 15", "SIGTERM", "1 to 64", "by which a task is asked to end", ""},
		"spec.stop.grace":     {aTime, "30s", years, "and how long it may take before it is killed", ""},
		"spec.restart.limit": {"a whole number", "0", upTo(messages.MaxRestarts),
			"how often failures of the tasks are tried again", ""},
		"spec.restart.backoff": {aTime, "0", years, "before the first of them; it doubles, up to 10m", ""},
		"spec.warn": {"USR1@120s", "never", "no longer than the time limit",
			"the signal by which tasks are warned, and how long before they are stopped by the time limit or a drain; " +
				"`$SYNAPSE_NOTICE` says more (runtime.md)", ""},
		"spec.lostGrace": {aTime, "0", years, "how long a lost machine may return with the attempt", ""},
		"spec.stopWhenLost": {aTime, "never", "0, or at least " + FormatDuration(messages.MinStopWhenLostMs),
			"tasks end by themselves when the scheduler was not heard for this long", ""},
	}
}

// reference is the page.
func reference() string {
	var page strings.Builder
	fmt.Fprintf(&page, `# The job file

Written by a test from the code that reads it (`+"`go test ./clients/go/jobfile -run TestReference -rewrite`"+`). YAML or JSON; several
documents are several jobs, all checked before the first is sent. At most %s, %d documents and %d levels. A key that is not here is
refused with its line and the nearest one. What a scheduler says of a job (`+"`status`, `metadata.id`, `metadata.owner`, `metadata.requestId`"+`) is
passed over: `+"`get job JOB -o yaml | submit -`"+` submits it again. Which driver runs a task: runtime.md.
`, FormatBytes(MaxBytes), maxDocuments, maxDepth)
	all := references()
	for _, s := range sections() {
		var rows []string
		for _, k := range s.keys {
			path := join(s.path, k.name)
			if a, known := all[path]; known {
				what := a.what
				if a.drivers != "" {
					what += " (" + a.drivers + ")"
				}
				rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", k.name, what, a.form, a.none, a.limit))
			}
		}
		if rows == nil {
			continue
		}
		title := "The top"
		if s.path != "" {
			title = "`" + s.path + "`"
		}
		page.WriteString("\n## " + title + "\n\n| key | what | written as | left out | limit |\n|---|---|---|---|---|\n" +
			strings.Join(rows, ""))
	}
	page.WriteString(shareOfMemory)
	return page.String()
}

const shareOfMemory = `
## Memory that is not asked for

A task that asks for none gets its share of a machine's. On a machine without GPUs that is by its CPUs: a quarter of them brings a quarter of
the memory. On one with GPUs half of the memory goes with the CPUs and half with the GPUs: all GPUs and no CPU to speak of bring half of
the memory, all of both all of it. So no job that asks for no memory keeps another waiting that asks for none either. Of all
machines that could ever hold such a task (its type of GPU, its labels, the machines that it names) the least share counts, rounded down to
a Mi; of a total each GPU, or each core, is looked at by itself.

It is given with the submit, and from then on is what the job asks for: booked, enforced, shown (` + "`describe`" + ` and ` + "`memoryByShare`" + ` of
` + "`get job -o yaml`" + ` say that it is the default), the same in all runs, whatever machines join later. Ask for memory where a task needs
another amount, or name its machines where a small one holds the share down. Where no machine is known that could hold the task
(` + "`submit --allow-infeasible`" + `) it is 1Gi for each CPU and 4Gi for each GPU. A job that an earlier version took in has no limit.
`

// TestReference keeps docs/reference/job-file.md: it speaks of each key that is read, and of no
// other. It shares the -rewrite flag of the golden refusals.
func TestReference(t *testing.T) {
	all := references()
	for _, s := range sections() {
		for _, k := range s.keys {
			path := join(s.path, k.name)
			_, known := all[path]
			isSection := slices.ContainsFunc(sections(), func(o section) bool { return o.path == path })
			if known != (k.read != nil && !isSection) {
				t.Errorf("%s: in the reference %v", path, known)
			}
			delete(all, path)
		}
	}
	for path := range all {
		t.Errorf("%s is in the reference, and is no key", path)
	}
	const page = "../../../docs/reference/job-file.md"
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(page, []byte(reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(page); err != nil || string(now) != reference() {
		t.Errorf("docs/reference/job-file.md is not what the code reads (%v): run it with -rewrite", err)
	}
}
