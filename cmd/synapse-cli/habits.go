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
	"diff": "apply --dry-run=server", "proxy": "port-forward", "expose": "port-forward",
	"annotate": "note", "undrain": "uncordon", "resume": "release", "rerun": "submit --from", "tail": "logs -f",
}

// kinds maps the words of other schedulers to the lists of `get`.
var kinds = map[string]string{
	"pod": "jobs", "pods": "jobs", "tasks": "jobs", "workloads": "jobs", "deployments": "jobs", "deploy": "jobs",
	"statefulsets": "jobs", "sts": "jobs", "replicasets": "jobs", "rs": "jobs", "cronjobs": "jobs", "cj": "jobs",
	"machines": "nodes", "hosts": "nodes", "workers": "nodes", "quota": "queues", "resourcequotas": "queues",
	"partitions": "queues", "namespaces": "queues", "ns": "queues",
	"no": "nodes", "po": "jobs", "reservations": "jobs --start",
}

// advice has the hints for words that no single command replaces. A key is a command name, or `get` with a word.
var advice = map[string]string{
	"get all":      "use `get jobs`, `get nodes` or `get queues`",
	"get svc":      portsOfJobs,
	"get services": portsOfJobs,
	"get pvc":      noVolumes,
	"get pv":       noVolumes,
	"config view":  "use `synapse-cli config get-contexts`",
	"scale":        keepsSize,
	"autoscale":    keepsSize,
	"set":          "use `synapse-cli update JOB`, or submit the job again with another file",
	"rollout":      "use `synapse-cli describe job JOB`, or `synapse-cli requeue JOB` to restart it",
	"label":        "labels of nodes are set by `synapse-node --labels`, and labels of jobs by `submit --label`",
	"taint":        "use `synapse-cli cordon NODE` to keep new jobs away",

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
	"jobs --field-selector":      "select with --phase, --owner, --queue or --label",
	"nodes --field-selector":     "select with --label",
	"jobs --output-watch-events": "use --watch", "nodes --show-labels": "use -o wide",
	"jobs --show-labels": "use -o yaml",
	"logs -c":            oneContainer, "logs --container": oneContainer, "logs --all-containers": oneContainer,
	"exec -c": oneContainer, "exec --container": oneContainer, "attach -c": oneContainer, "cp -c": oneContainer,
	"attach -i": "leave it out: attach shows the output; `exec -it` has an input", "attach -t": "leave it out",
	"run --rm": "leave it out: the job stays in the history", "apply -k": "write one file, and use -f",
	"cancel --all":     "use `synapse-cli cancel $(synapse-cli get jobs --me --live -q)`",
	"events --sort-by": byTime, "events -w": "use --follow", "events --watch": "use --follow",
	"events --for":         "use `synapse-cli watch JOB`",
	"drain --force":        "leave it out: --deadline sets when running jobs are stopped",
	"drain --grace-period": "use --deadline",
	"cancel --force":       "leave it out: `stop.grace` of the job file sets how long its tasks may take",
}

const (
	keepsSize    = "a job keeps its size: submit it again with another size"
	portsOfJobs  = "there are no services: `synapse-cli port-forward JOB PORT` reaches a port of a job"
	noVolumes    = "there are no volumes: `synapse-cli submit --mount` makes a directory of the node visible to a job"
	oneContainer = "leave it out: a task has one container"
	byTime       = "leave it out: events are in the order of time"
)

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
