package jobfile

import (
	"fmt"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file describes each key of a job file. `synapse-cli help job-file` prints these texts, and a test
// writes docs/reference/job-file.md from them. sections.go defines the keys.

// KeyText describes one key of a job file.
type KeyText struct {
	Name, Meaning, Format, Default, Limit string
}

// SectionText describes the keys of one mapping of a job file. The path of the top level is empty.
type SectionText struct {
	Path string
	Keys []KeyText
}

// Reference returns the descriptions of all keys, in the order of the file.
func Reference() []SectionText {
	texts := map[string]KeyText{}
	for _, part := range [][]KeyText{
		topTexts(), placementTexts(), programTexts(), accessTexts(), timeTexts(), gangTexts(), nestedTexts(),
	} {
		for _, text := range part {
			texts[text.Name] = text
		}
	}
	var all []SectionText
	for _, s := range sections() {
		one := SectionText{Path: s.path}
		for _, k := range s.keys {
			if text, ok := texts[join(s.path, k.name)]; ok {
				text.Name = k.name
				one.Keys = append(one.Keys, text)
			}
		}
		if one.Keys != nil {
			all = append(all, one)
		}
	}
	return all
}

const (
	sizeFormat = "size"
	spanFormat = "span"
	timeFormat = "`2026-11-24T08:00:00Z`, `2026-11-24T08:00`, `08:00` (today or tomorrow), `now+2h`"
	nameFormat = "a-z, 0-9, '-'"
	mapFormat  = "`{key: value}`"
	flagFormat = "`true`, `false`"
	levelWords = "`zone`, `rack`, `node`, …"
	coreFormat = "`64`, `0.5`, `500m`"
	numFormat  = "whole number"
	required   = "required"
)

func upTo[N int | int32 | int64](n N) string { return fmt.Sprintf("up to %d", n) }

func upToBytes(n int64) string { return "up to " + FormatBytes(n) }

func letters(n int) string { return fmt.Sprintf("1 to %d characters", n) }

func topTexts() []KeyText {
	return []KeyText{
		{"apiVersion", "Version of the file format.", "`synapse/v1`", required, ""},
		{"kind", "Kind of the document.", "`Job`", required, ""},
		{"metadata.name", "Name of the job. Several jobs may have the same name.", "letters, digits, '.', '_', '-'",
			required,
			letters(messages.MaxTitleBytes)},
		{"metadata.labels", "Labels of the job; `-l` selects jobs by label.", mapFormat, "none", upTo(messages.MaxLabels)},
	}
}

func placementTexts() []KeyText {
	return []KeyText{
		{"spec.queue", "Queue of the job.", nameFormat, "the cluster's default queue, or none",
			letters(messages.MaxNameBytes)},
		{"spec.priority", "Priority; jobs with a higher priority start first.", numFormat, "the default of the " +
			"queue, else 0",
			fmt.Sprintf("±%d", messages.MaxPriority)},
		{"spec.nodeSelector", "Node labels or topology domains (`zone: a`) that every node of the job must have.",
			mapFormat,
			"any node", upTo(messages.MaxLabels)},
		{"spec.nodes", "Nodes that the job may use. A gang can use fewer.", "`[n1, n2]`", "any node",
			upTo(messages.MaxNamedMachines)},
		{"spec.exclude", "Nodes that the job never uses.", "`[n3]`", "none", upTo(messages.MaxNamedMachines)},
		{"spec.topology.required", "Topology level. All tasks must be in one domain of this level, such as one " +
			"rack.", levelWords,
			"no requirement",
			"a level of the cluster"},
		{"spec.topology.preferred", "Topology level. All tasks should be in one domain of this level, such as one " +
			"rack.", levelWords,
			"as close as possible", "a level of the cluster"},
		{"spec.topology.patience", "Maximum time to wait for the preferred level.", spanFormat, "0", ""},
		{"spec.preemptible", "Permission to preempt the job, if its queue allows preemption. With `false`, the job " +
			"runs only within the quota of its queue.", flagFormat, "true", ""},
		{"spec.checkpoint.every", "Interval at which the job saves a checkpoint. A preemption loses at most the " +
			"work of one interval. `checkpoint: 10m` sets only this key; each other key makes the scheduler request a " +
			"checkpoint before it stops the job.", spanFormat, "the job saves no checkpoints", ""},
		{"spec.checkpoint.signal", "Signal that is sent with the request to save.", "`USR1`",
			"no signal: the tasks look for the file `$SYNAPSE_NOTICE`", "a signal that a task can handle"},
		{"spec.checkpoint.grace", "Time to save, before the stop signal is sent.", spanFormat, "5m",
			"1h, and at most the time limit"},
		{"spec.checkpoint.ack", "How a task acknowledges: `file` with a line in " +
			"`$SYNAPSE_CHECKPOINT_DIR/ack.RANK`, `exit` with exit code 85, or `socket` with `$SYNAPSE_EXEC --ack STEP`.",
			"`file`, `exit`, `socket`", "`file`", ""},
		{"spec.checkpoint.commit", "Tasks that must acknowledge: `all`, or only `rank0`.", "`all`, `rank0`", "`all`", ""},
	}
}

func programTexts() []KeyText {
	arguments := fmt.Sprintf("%d arguments, %s", messages.MaxCommandArgs, FormatBytes(messages.MaxCommandBytes))
	return []KeyText{
		{"spec.image", "Root file system of the tasks. The driver `process` supports `host` only.",
			"`host`, `/a/directory`, `a.tar`, `a.sqsh`, `oci:…`, a registry reference", required,
			fmt.Sprintf("%d bytes", messages.MaxPathBytes)},
		{"spec.command", "Command of each task. Required with the image `host`, unless `script` is set.",
			"`[program, argument]`", "the image's command", arguments},
		{"spec.script", "Text of a script that each task runs instead of a command. `submit SCRIPT` fills in this key.",
			"text that begins with `#!`", "none", FormatBytes(messages.MaxScriptBytes)},
		{"spec.scriptName", "File name of the script in the task's scratch directory.", "`train.sh`",
			messages.DefaultScriptName, letters(messages.MaxScriptNameBytes)},
		{"spec.args", "Arguments of the script.", "`[argument]`", "none", arguments},
		{"spec.workdir", "Working directory of the tasks.", "`/an/absolute/path`",
			"the working directory of the image; with the image `host`, the directory of the submit, or the " +
				"scratch directory if the task's user cannot enter it",
			fmt.Sprintf("%d bytes", messages.MaxPathBytes)},
		{"spec.env", "Environment variables. `SYNAPSE_*` and the GPU variables are refused.", "`{NAME: value}`", "none",
			FormatBytes(messages.MaxEnvBytes) + " in total"},
		{"spec.launcher", "Process launcher in each task. It determines the environment variables of the task.",
			"`" + strings.Join(messages.LaunchWords(), "`, `") + "`", "auto", ""},
		{"spec.array", "Array: one job per index. `%10` limits the number of running jobs to 10.",
			"`0-99%10`, `0-9:2`, `1,5,7`", "one job", fmt.Sprintf("%d elements", messages.MaxElements)},
	}
}

func accessTexts() []KeyText {
	return []KeyText{
		{"spec.user", "Account that runs the tasks. `root` is root only inside the task's container; in " +
			"directories of the node, it has the uid of the job.", "name or number of an account of the node",
			"a separate uid per job; name an account if jobs share files", fmt.Sprintf("%d bytes", messages.MaxIDBytes)},
		{"spec.network", "Network of the tasks. `host` is the network of the node, and `none` is no network. With " +
			"`private`, tasks can connect to other hosts, but other hosts cannot connect to the tasks. `none` and " +
			"`private` " +
			"need the driver `carapace` or `oci`.",
			"`host`, `none`, `private`", "host", "`private`: jobs on one node"},
		{"spec.secrets", "Secret values. Tasks see them as files in `/run/secrets`, or as variables if `env: true` " +
			"is set. The client reads " +
			"each value at " +
			"submit, from `fromFile`, `fromEnv` or `--secret`. Files need the driver `carapace` or `oci`; variables need " +
			"`carapace` or `process`.", "`[{name, env, fromFile, fromEnv}]`", "none",
			upTo(messages.MaxSecrets) + ", 64Ki in total"},
		{"spec.mounts", "Files and directories of the node that the tasks see. With the driver `process`, source " +
			"and target must be equal, and `readOnly` is refused.", "`[{source, target, " +
			"readOnly}]`", "none", upTo(messages.MaxMounts)},
	}
}

func timeTexts() []KeyText {
	return []KeyText{
		{"spec.after", "Jobs that must end before this job starts. The suffix `:ok` (the default) requires " +
			"success, `:failed` requires any other end, and `:any` accepts both. `:started` and `:started+10m` require a " +
			"start, and `:element` applies to [arrays](../jobs/dependencies.md).", "`[train-7f, " +
			"prep:any]`", "none", upTo(256)},
		{"spec.begin", "Earliest start, by the clock of the scheduler. A time in the past means " +
			"now.", timeFormat, "now", "a " +
			"year ahead"},
		{"spec.deadline", "Latest end of the job, by the clock of the scheduler. A waiting job that could no longer " +
			"end in time is cancelled. Requires a time limit.", timeFormat, "none", ""},
		{"spec.timeLimit", "Maximum run time of one attempt, from its start.", spanFormat,
			"the default of the queue, else of the cluster, else no limit", ""},
		{"spec.prepareTimeout", "Maximum time to prepare the images.", spanFormat, "30m", ""},
		{"spec.warn", "Signal that warns the tasks before the time limit or a drain stops them, and how long " +
			"before. " +
			"The file `$SYNAPSE_NOTICE` has the reason and the time.", "`USR1@120s`", "no warning",
			"at most the time limit"},
		{"spec.progress.pattern", "Regular expression (RE2) that finds the progress in lines of stdout. The first " +
			"group is the step, and the second group is the total number of steps.", "`step " +
			"(\\d+)/(\\d+)`", "no pattern; tasks can still report progress themselves",
			fmt.Sprintf("%d bytes", messages.MaxPatternBytes)},
		{"spec.progress.kubeflow", "Endpoint of the Kubeflow Trainer progress protocol. With `off`, the tasks get none of " +
			"its variables.", "`on`, `off`", "on", "only on the node's network"},
		{"spec.hang.then", "What follows when the job has reported steps and no rank makes progress any more: `report` " +
			"names the rank that stopped first, `restart` also ends the attempt, which counts against `restart.limit`, and " +
			"`none` turns the detection off.", "`report`, `restart`, `none`", "`report`", ""},
		{"spec.hang.floor", "Shortest time without a step that counts as a hang. A job with long steps gets four times " +
			"its usual time for a step.", spanFormat, "60s", "at least 1s"},
		{"spec.hang.dump", "Signal that makes a task print its stacks, for example with Python's " +
			"`faulthandler.register`.", "`USR1`", "no signal", "a signal that a task can handle"},
		{"spec.stop.signal", "Signal that asks a task to end.", "`SIGTERM`, `TERM`, `15`", "SIGTERM", "1 to 64"},
		{"spec.stop.grace", "Time between the stop signal and SIGKILL.", spanFormat, "30s", ""},
		{"spec.restart.limit", "Maximum number of restarts after failures of the tasks. Failures of nodes do not count. " +
			"With `never`, no task runs twice: if an attempt ends early for any reason, the job fails.",
			"whole number, `never`", "0", upTo(messages.MaxRestarts)},
		{"spec.restart.backoff", "Delay before the first restart. Each further restart doubles it, up to 10m.",
			spanFormat, "0",
			""},
		{"spec.restart.inPlace", "After a failure of a task, the job restarts on the nodes and devices that it has, " +
			"without waiting in the queue. Other nodes replace lost ones.", flagFormat, "false", "requires `restart.limit`"},
		{"spec.restart.grace", "Time between the stop signal and SIGKILL for the other tasks before a restart in place.",
			spanFormat, "2s, or `stop.grace` if that is shorter", "requires `restart.inPlace`"},
		{"spec.restart.swapWait", "How long a gang that lost a node keeps its other nodes while it waits for another one.",
			spanFormat, "1m", "requires `restart.inPlace`; at most " + FormatDuration(messages.MaxSwapWaitMs)},
		{"spec.restart.spares", "Number of nodes that the job holds in addition, to replace lost ones at once. " +
			"Each task and each spare has its own node.", numFormat, "0",
			"requires `restart.inPlace`; " + upTo(messages.MaxSpares)},
		{"spec.lostGrace", "Time to wait for a lost node before the attempt ends.",
			spanFormat, "0",
			""},
		{"spec.stopWhenLost", "Time without contact to a scheduler after which the tasks stop themselves.",
			spanFormat, "never",
			"0, or at least " + FormatDuration(messages.MinStopWhenLostMs)},
	}
}

func gangTexts() []KeyText {
	return []KeyText{
		{"spec.gang.replicas", "Number of tasks. Each has the `resources`, and all start together.", numFormat, "1",
			fmt.Sprintf("1 to %d", messages.MaxGangTasks)},
		{"spec.gang.split", "Division of a total over nodes. `whole` uses complete nodes, and a part of one node " +
			"for the rest; `any` uses any free parts of nodes.",
			"`whole`, `any`", "whole", ""},
		{"spec.gang.apart", "With `true`, no two `replicas` share a node.", flagFormat, "false", ""},
		{"spec.gang.total.gpu", "Total number of GPUs of the gang, set instead of `replicas`. Each node of the " +
			"gang runs one task.", "`8`", "none",
			"whole GPUs"},
		{"spec.gang.total.cpu", "Total number of cores, divided over the nodes in proportion to the GPUs. If the " +
			"total has no GPUs, `split` applies to the cores.", coreFormat, "none", ""},
		{"spec.gang.total.memory", "Total memory, divided in proportion to the GPUs or cores.", sizeFormat,
			"a share of each node's memory", ""},
	}
}

func nestedTexts() []KeyText {
	return []KeyText{
		{"spec.resources.gpu", "GPUs per task. Only a job of one task may request a part of a GPU.", "`8`, `0.5`", "none",
			upTo(messages.MaxMilliGPU / 1000)},
		{"spec.resources.gpuType", "GPU type of the job.", "`h100`", "any", letters(messages.MaxNameBytes)},
		{"spec.resources.cpu", "Cores per task. Every driver reserves them; `carapace` and `oci` also enforce the limit.",
			coreFormat, "1 if `gpu` and `memory` are unset, else none", upTo(messages.MaxMilliCPU / 1000)},
		{"spec.resources.memory", "Memory per task. Every driver reserves it; `carapace` and `oci` also enforce " +
			"the limit.",
			sizeFormat, "[a share of a node's memory](#default-memory)", FormatBytes(messages.MinTaskMemoryBytes) + " to " +
				FormatBytes(messages.MaxMemoryBytes)},
		{"spec.resources.shm", "Size of `/dev/shm` per task. It is a part of the memory of the task. With the " +
			"driver `process`, " +
			"tasks use the " +
			"node's `/dev/shm`.", sizeFormat, "half of the memory", "the task's memory"},
		{"spec.resources.disk", "Disk space per task, reserved on the node. The scratch directory, the writable " +
			"layer and the output of the task use this space. A task that exceeds it is killed, with the cause " +
			"`disk`. The driver `process` counts the scratch " +
			"directory only.",
			sizeFormat, "a tenth of the free space, not reserved", upToBytes(messages.MaxMemoryBytes)},
	}
}
