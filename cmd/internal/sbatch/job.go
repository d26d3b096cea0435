package sbatch

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages/plain"
)

// This file converts options into a job. A node of Slurm's allocation becomes a task, alone on its node. The script
// runs in the first task, and its steps run in all. Only if --ntasks is set without --nodes, a Slurm task becomes a
// task, on any nodes.

// Submitter describes the environment of a submit.
type Submitter struct {
	Dir, Host, User string
	// As is the account that the job names; empty: none.
	As  string
	Env []string // NAME=value
	// Whole holds the resources of a complete node that the job requests; nil: not requested.
	Whole *Amount
}

// Shape holds the number of tasks, and how many of Slurm's tasks are in each.
type Shape struct {
	Gang, Each, Tasks int64
	Apart             bool
}

// Shape returns the tasks of the job.
func (b *Plain) Shape() (Shape, error) {
	nodes, tasks, each := b.Nodes, b.Tasks, b.TasksPerNode
	switch {
	case nodes == 0 && each > 0 && tasks > 0:
		nodes = (tasks + each - 1) / each
	case nodes == 0 && each == 0 && tasks > 1:
		if b.GPUsPerNode > 0 {
			return Shape{}, &Refusal{Option: "--gpus-per-node",
				Text: "is per node, and --ntasks alone does not set the number of nodes",
				Hint: "add --nodes, or use --gpus-per-task"}
		}
		return Shape{Gang: tasks, Each: 1, Tasks: tasks}, nil
	}
	nodes = max(nodes, 1)
	if tasks == 0 {
		tasks = nodes * max(each, 1)
	}
	if each == 0 {
		each = (tasks + nodes - 1) / nodes
	}
	if tasks < nodes || tasks > nodes*each {
		return Shape{},
			&Refusal{Option: "--ntasks", Text: fmt.Sprintf("%d tasks do not fit on %d nodes of %d", tasks, nodes, each)}
	}
	return Shape{Gang: nodes, Each: each, Tasks: tasks, Apart: nodes > 1}, nil
}

// Amount holds the resources of one task.
type Amount struct{ MilliCPU, MilliGPU, MemoryBytes int64 }

// Amount returns the resources of one task. whole has those of a complete node; nil: not requested.
func (b *Plain) Amount(s Shape, whole *Amount) (*Amount, error) {
	gpus := b.GPUsPerNode
	switch {
	case b.GPUsPerTask > 0 && gpus > 0 && gpus != b.GPUsPerTask*s.Each:
		return nil,
			&Refusal{Option: "--gpus-per-task", Text: fmt.Sprintf("%d tasks of %d are not %d GPUs", s.Each, b.GPUsPerTask, gpus)}
	case b.GPUsPerTask > 0:
		gpus = b.GPUsPerTask * s.Each
	case b.GPUs > 0 && gpus == 0:
		if gpus = b.GPUs / s.Gang; gpus*s.Gang != b.GPUs {
			return nil, &Refusal{Option: "--gpus", Text: fmt.Sprintf("%d cannot be divided evenly by %d", b.GPUs,
				s.Gang),
				Hint: "use --gpus-per-node"}
		}
	}
	if b.GPUs > 0 && b.GPUs != gpus*s.Gang {
		return nil,
			&Refusal{Option: "--gpus", Text: fmt.Sprintf("total is %d, but the nodes have %d", b.GPUs, gpus*s.Gang)}
	}
	cpus := cmp.Or(b.CPUsPerTask, 1) * s.Each
	if b.CPUsPerGPU > 0 {
		if b.CPUsPerTask > 0 || gpus == 0 {
			return nil, &Refusal{Option: "--cpus-per-gpu", Text: "requires GPUs and excludes --cpus-per-task"}
		}
		cpus = b.CPUsPerGPU * gpus
	}
	if n := min(b.Memory, 1) + min(b.MemoryPerCPU, 1) + min(b.MemoryPerGPU, 1); n > 1 {
		return nil, &Refusal{Option: "--mem", Text: "cannot be combined with --mem-per-cpu or --mem-per-gpu"}
	}
	r := &Amount{MilliCPU: cpus * 1000, MilliGPU: gpus * 1000,
		MemoryBytes: b.Memory + b.MemoryPerCPU*cpus + b.MemoryPerGPU*gpus}
	if whole != nil && b.Exclusive {
		r.MilliCPU = whole.MilliCPU
	}
	if whole != nil && (b.WholeMemory || b.Exclusive && r.MemoryBytes == 0) {
		r.MemoryBytes = whole.MemoryBytes
	}
	return r, nil
}

// Called returns the name of the job as the user wrote it.
func (b *Plain) Called() string {
	if b.Name == "" {
		return "wrap"
	}
	return b.Name
}

// Workdir returns the folder in which the script begins, or "".
func (b *Plain) Workdir(here string) string {
	if b.Chdir == "" || path.IsAbs(b.Chdir) {
		return b.Chdir
	}
	return path.Join(here, b.Chdir)
}

// environment returns the variables of the script in addition to those of a task: the exported ones, and Slurm's
// variables about the submit and the allocation.
func (b *Plain) environment(s Shape, amount *Amount, from Submitter, in *Container) (env [][2]string, err error) {
	set, err := b.Exported(from.Env)
	if err != nil {
		return nil, err
	}
	image := ""
	if in != nil {
		image = in.Image
		in.Variables(set)
	}
	add := func(name, value string) { set[name] = value }
	add("SLURM_SUBMIT_DIR", from.Dir)
	add("SLURM_SUBMIT_HOST", from.Host)
	add("SLURM_JOB_NAME", b.Called())
	add("SLURM_NTASKS", Decimal(s.Tasks))
	add("SLURM_NPROCS", Decimal(s.Tasks))
	add("SLURM_CPUS_ON_NODE", Decimal(amount.MilliCPU/1000))
	if s.Apart || s.Gang == 1 {
		// A task here may contain several of Slurm's tasks. A thread per CPU of the node would be too many
		// for each of them.
		add("SLURM_CPUS_PER_TASK", Decimal(max(b.CPUsPerGPU*amount.MilliGPU/1000/s.Each, 1)))
		add("SLURM_NTASKS_PER_NODE", Decimal(s.Each))
		add("SLURM_TASKS_PER_NODE", repeated(s.Each, s.Gang, s.Tasks))
		add("SLURM_JOB_CPUS_PER_NODE", repeated(amount.MilliCPU/1000, s.Gang, s.Gang*amount.MilliCPU/1000))
	}
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"SLURM_NTASKS_PER_NODE", b.TasksPerNode}, {"SLURM_CPUS_PER_TASK", b.CPUsPerTask},
		{"SLURM_CPUS_PER_GPU", b.CPUsPerGPU},
		{"SLURM_GPUS", b.GPUs}, {"SLURM_GPUS_PER_NODE", b.GPUsPerNode}, {"SLURM_GPUS_PER_TASK", b.GPUsPerTask},
		{"SLURM_GPUS_ON_NODE", amount.MilliGPU / 1000}, {"SLURM_MEM_PER_NODE", b.Memory >> 20},
		{"SLURM_MEM_PER_CPU", b.MemoryPerCPU >> 20}, {"SLURM_MEM_PER_GPU", b.MemoryPerGPU >> 20},
	} {
		if v.value > 0 {
			add(v.name, Decimal(v.value))
		}
	}
	for _, v := range [][2]string{
		{"SLURM_JOB_PARTITION", b.Partition}, {"SLURM_JOB_ACCOUNT", b.Account}, {"SLURM_JOB_QOS", b.QOS},
		{"SLURM_JOB_USER", from.User}, {"SLURM_JOB_CONTAINER_IMAGE", image},
	} {
		if v[1] != "" {
			add(v[0], v[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, [2]string{name, set[name]})
	}
	return env, nil
}

// Decimal formats a number.
func Decimal(n int64) string { return strconv.FormatInt(n, 10) }

// repeated formats a number per node, such as 4(x2),3.
func repeated(each, nodes, total int64) string {
	full, rest := min(total/each, nodes), total%each
	var parts []string
	switch {
	case full > 1:
		parts = append(parts, fmt.Sprintf("%d(x%d)", each, full))
	case full == 1:
		parts = append(parts, Decimal(each))
	}
	if rest > 0 {
		parts = append(parts, Decimal(rest))
	}
	return strings.Join(parts, ",")
}

// ownHere lists variables that belong to the submit host and its shell.
var ownHere = []string{"_", "PWD", "OLDPWD", "SHLVL", "TERM", "TMPDIR", "HOSTNAME", "SSH_CLIENT", "SSH_CONNECTION",
	"SSH_TTY",
	"SSH_AUTH_SOCK", "DISPLAY", "XDG_RUNTIME_DIR", "XDG_SESSION_ID", "DBUS_SESSION_BUS_ADDRESS"}

// Exported returns the exported variables: ALL, NONE, or a list, which may contain ALL.
func (b *Plain) Exported(here []string) (set map[string]string, err error) {
	all := false
	set = map[string]string{}
	named := map[string]bool{}
	for word := range strings.SplitSeq(b.Export, ",") {
		name, value, has := strings.Cut(word, "=")
		switch {
		case word == "ALL":
			all = true
		case word == "NONE", word == "NIL", word == "":
		case has:
			set[name] = value
		default:
			named[name] = true
		}
	}
	for _, entry := range here {
		name, value, _ := strings.Cut(entry, "=")
		if _, given := set[name]; given || !named[name] && (!all || slices.Contains(ownHere, name) || !exportable(name)) {
			continue
		}
		set[name] = value
	}
	bytes := 0
	for name, value := range set { //order: only counted
		bytes += len(name) + len(value)
	}
	if bytes > plain.MaxEnvBytes/2 {
		return nil, &Refusal{Option: "--export",
			Text: fmt.Sprintf("local environment has %d bytes, but a job can carry only %d",
				bytes, plain.MaxEnvBytes/2), Hint: "use --export=NONE, or list the variables that the script needs"}
	}
	return set, nil
}

// exportable reports whether a variable may be exported without being named.
func exportable(name string) bool {
	if strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "SBATCH_") || plain.ReservedEnv(name) {
		return false
	}
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" &&
		(name[0] < '0' || name[0] > '9')
}

// Container describes the container of a job for its environment. Package slurm sets it.
type Container struct {
	Image     string
	Variables func(set map[string]string) // changes the exported variables
}

// Job is the job that sbatch submits, without the parts that only package slurm knows.
type Job struct {
	Queue, Name, Title, User string
	GPUType, SubmitDir       string
	Priority                 int32
	PriorityZero, Never      bool
	Shape                    Shape
	Each                     Amount
	TimeLimitMs              int64
	Labels, Env              [][2]string // sorted by name
	Args                     []string
	Script                   []byte
}

// Job returns the job that runs a script on the first node, after the setup of its files. program is the name of a job
// whose name has no valid character. in is nil for a job without a container.
func (b *Plain) Job(program string, s Shape, each *Amount, text []byte, files string, args []string, from Submitter,
	in *Container) (*Job, error) {
	j := &Job{
		Queue: b.Partition, Priority: b.Priority, PriorityZero: b.Priority == 0 && (b.Given["priority"] || b.Given["nice"]),
		Shape: s, Each: *each, GPUType: b.GPUType, User: from.As, TimeLimitMs: b.TimeLimitMs, Never: b.Never, Args: args,
	}
	if j.Name, j.Title = plain.Call(b.Called()); !plain.Titled(b.Called()) {
		j.Name = orDefault(plain.NameOf(b.Called()), program) // replaces characters that a name cannot contain
	}
	// As in Slurm, a job whose user cannot enter the folder begins elsewhere, with a notice. A workdir would be created.
	j.SubmitDir = orDefault(b.Workdir(from.Dir), from.Dir)
	for _, l := range [][2]string{{"account", b.Account}, {"comment", b.Comment}, {"qos", b.QOS}, {"wckey", b.WCKey}} {
		if l[1] != "" {
			j.Labels = append(j.Labels, l)
		}
	}
	var err error
	if j.Env, err = b.environment(s, each, from, in); err == nil {
		j.Script, err = wrapper(text, files)
	}
	return j, err
}
