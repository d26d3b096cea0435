package main

import "strings"

// This file owns the words of kubectl and of other schedulers that have another name here, or none.

// elsewhere maps the command names of other schedulers to the commands here.
var elsewhere = map[string]string{
	"sbatch": "submit", "srun": "run",
	"scancel": "cancel", "kill": "cancel", "stop": "cancel", "squeue": "get jobs", "ps": "get jobs",
	"jobs": "get jobs", "list": "get jobs",
	"sinfo": "get nodes", "nodes": "get nodes",
	"sacct": "history", "show": "describe job", "status": "describe job",
	"scontrol": "describe job", "sattach": "attach", "sreport": "history --sum owner",
	"sprio": "slurm sprio", "seff": "slurm seff",
	"cluster-info": "top", "edit": "update", "patch": "update",
	"annotate": "note", "undrain": "uncordon", "resume": "release", "rerun": "submit --from", "tail": "logs -f",
}

// kinds maps the words of other schedulers to the lists of `get`.
var kinds = map[string]string{
	"pods": "jobs", "tasks": "jobs", "workloads": "jobs", "machines": "nodes", "hosts": "nodes", "workers": "nodes",
	"partitions": "queues", "namespaces": "queues", "ns": "queues",
	"no": "nodes", "po": "jobs", "reservations": "jobs --start",
}

// advice has the hints for words that no single command replaces. A key is a command name, or `get` with a word.
var advice = map[string]string{
	"get all": "use `get jobs`, `get nodes` or `get queues`",
	"scale":   "a job keeps its size: submit it again with another size",
	"rollout": "use `synapse-cli describe job JOB`, or `synapse-cli requeue JOB` to restart it",
	"label":   "labels of nodes are set by `synapse-node --labels`, and labels of jobs by `submit --label`",
	"taint":   "use `synapse-cli cordon NODE` to keep new jobs away",

	"api-resources": "use `synapse-cli get jobs`, `get nodes` or `get queues`",
}

// flagHabits has the hints for flags of kubectl, by command and flag.
var flagHabits = map[string]string{
	"logs --since-time": "use --since with a date, as in --since 2026-11-01T08:00:00Z",

	"drain --ignore-daemonsets":    "leave it out: drain stops only jobs of Synapse",
	"drain --delete-emptydir-data": "leave it out: drain stops only jobs of Synapse",
	"jobs -A":                      noNamespaces, "jobs --all-namespaces": noNamespaces, "jobs -n": noNamespaces,
	"jobs --namespace": noNamespaces, "describe -n": noNamespaces, "logs -n": noNamespaces,
	"job -n": noNamespaces, "nodes -A": noNamespaces,
}

const noNamespaces = "there are no namespaces: select with --queue or --owner"

// flagHabit returns the hint for an unknown flag in an error of the flag parser, or "".
func flagHabit(command, text string) string {
	flag, is := strings.CutPrefix(text, "unknown flag: ")
	if !is {
		_, flag, is = strings.Cut(text, "unknown shorthand flag: ")
		if _, after, ok := strings.Cut(flag, "'"); ok {
			name, _, _ := strings.Cut(after, "'")
			flag = "-" + name
		}
	}
	if !is {
		return ""
	}
	return flagHabits[command+" "+flag]
}
