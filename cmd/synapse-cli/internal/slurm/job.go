package slurm

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
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
	Whole *messages.Resources
}

// WantsWhole reports whether complete nodes are requested without their amounts, and of which GPU type.
func (b *Batch) WantsWhole() (wants bool, gpuType string) {
	return b.exclusive || b.wholeMemory, b.gpuType
}

// shape holds the number of tasks, and how many of Slurm's tasks are in each.
type shape struct {
	gang, each, tasks int64
	apart             bool
}

func (b *Batch) shape() (shape, error) {
	nodes, tasks, each := b.nodes, b.tasks, b.tasksPerNode
	switch {
	case nodes == 0 && each > 0 && tasks > 0:
		nodes = (tasks + each - 1) / each
	case nodes == 0 && each == 0 && tasks > 1:
		if b.gpusPerNode > 0 {
			return shape{}, &Refusal{Option: "--gpus-per-node",
				Text: "is per node, and --ntasks alone does not set the number of nodes",
				Hint: "add --nodes, or use --gpus-per-task"}
		}
		return shape{gang: tasks, each: 1, tasks: tasks}, nil
	}
	nodes = max(nodes, 1)
	if tasks == 0 {
		tasks = nodes * max(each, 1)
	}
	if each == 0 {
		each = (tasks + nodes - 1) / nodes
	}
	if tasks < nodes || tasks > nodes*each {
		return shape{},
			&Refusal{Option: "--ntasks", Text: fmt.Sprintf("%d tasks do not fit on %d nodes of %d", tasks, nodes, each)}
	}
	return shape{gang: nodes, each: each, tasks: tasks, apart: nodes > 1}, nil
}

// amount returns the resources of one task.
func (b *Batch) amount(s shape, whole *messages.Resources) (*messages.Resources, error) {
	gpus := b.gpusPerNode
	switch {
	case b.gpusPerTask > 0 && gpus > 0 && gpus != b.gpusPerTask*s.each:
		return nil,
			&Refusal{Option: "--gpus-per-task", Text: fmt.Sprintf("%d tasks of %d are not %d GPUs", s.each, b.gpusPerTask, gpus)}
	case b.gpusPerTask > 0:
		gpus = b.gpusPerTask * s.each
	case b.gpus > 0 && gpus == 0:
		if gpus = b.gpus / s.gang; gpus*s.gang != b.gpus {
			return nil, &Refusal{Option: "--gpus", Text: fmt.Sprintf("%d cannot be divided evenly by %d", b.gpus,
				s.gang),
				Hint: "use --gpus-per-node"}
		}
	}
	if b.gpus > 0 && b.gpus != gpus*s.gang {
		return nil,
			&Refusal{Option: "--gpus", Text: fmt.Sprintf("total is %d, but the nodes have %d", b.gpus, gpus*s.gang)}
	}
	cpus := cmp.Or(b.cpusPerTask, 1) * s.each
	if b.cpusPerGPU > 0 {
		if b.cpusPerTask > 0 || gpus == 0 {
			return nil, &Refusal{Option: "--cpus-per-gpu", Text: "requires GPUs and excludes --cpus-per-task"}
		}
		cpus = b.cpusPerGPU * gpus
	}
	if n := min(b.memory, 1) + min(b.memoryPerCPU, 1) + min(b.memoryPerGPU, 1); n > 1 {
		return nil, &Refusal{Option: "--mem", Text: "cannot be combined with --mem-per-cpu or --mem-per-gpu"}
	}
	r := &messages.Resources{MilliCpu: cpus * 1000, MilliGpu: gpus * 1000,
		MemoryBytes: b.memory + b.memoryPerCPU*cpus + b.memoryPerGPU*gpus}
	if whole != nil && b.exclusive {
		r.MilliCpu = whole.GetMilliCpu()
	}
	if whole != nil && (b.wholeMemory || b.exclusive && r.MemoryBytes == 0) {
		r.MemoryBytes = whole.GetMemoryBytes()
	}
	return r, nil
}

// Job returns the job that sbatch submits.
func (b *Batch) Job(text []byte, args []string, from Submitter) (*messages.JobSpec, error) {
	b.outsideFiles(from)
	files, err := b.files()
	if err != nil {
		return nil, err
	}
	return b.job(text, files, args, from)
}

// job returns a job that runs a script on the first node, after the setup of its files.
func (b *Batch) job(text []byte, files string, args []string, from Submitter) (*messages.JobSpec, error) {
	s, err := b.shape()
	if err = cmp.Or(err, b.corresponding()); err != nil {
		return nil, err
	}
	amount, err := b.amount(s, from.Whole)
	if err != nil {
		return nil, err
	}
	if n := len(b.nodelist); n > 0 && int64(n) != s.gang {
		return nil, &Refusal{Option: "--nodelist", Text: fmt.Sprintf("lists %d nodes, but the job has %d", n, s.gang),
			Hint: "list as many nodes as --nodes"}
	}
	spec := &messages.JobSpec{
		Queue: b.partition, Priority: b.priority,
		PriorityZero: b.priority == 0 && (b.given["priority"] || b.given["nice"]),
		Gang:         &messages.GangSpec{ReplicasMin: int32(s.gang), ReplicasMax: int32(s.gang), Apart: s.apart},
		Each:         amount, GpuType: b.gpuType, Image: messages.HostImage, User: from.As,
		TimeLimitMs: b.timeLimitMs, BeginUnixMs: b.beginUnixMs, Array: b.array, After: b.after, NodeSelector: b.selector,
		Nodes: b.nodelist, Exclude: b.exclude, Warn: b.warn, Topology: b.topology, Launcher: messages.Launch_LAUNCH_SLURM,
	}
	if spec.Call(b.called()); !messages.Titled(b.called()) {
		spec.Name = orDefault(messages.NameOf(b.called()), b.program.name) // replaces characters that a name cannot contain
	}
	// As in Slurm, a job whose user cannot enter the folder begins elsewhere, with a notice. A workdir would be created.
	spec.SubmitDir = orDefault(b.workdir(from.Dir), from.Dir)
	for _, l := range [][2]string{{"account", b.account}, {"comment", b.comment}, {"wckey", b.wckey}} {
		if l[1] != "" {
			spec.Labels = append(spec.Labels, &messages.Label{Key: l[0], Value: l[1]})
		}
	}
	if b.never {
		spec.Restart = &messages.RestartSpec{Never: true}
	}
	if err := b.contain(spec, from); err != nil {
		return nil, err
	}
	if spec.Env, err = b.environment(s, amount, from); err != nil {
		return nil, err
	}
	wrapped, err := wrapper(text, files)
	if err != nil {
		return nil, err
	}
	if spec.Script, err = messages.NewScript(b.program.name, wrapped); err != nil {
		return nil, &Refusal{Option: "the script", Text: err.Error()}
	}
	spec.Script.Args = args
	return spec, jobfile.Valid(spec)
}

func (b *Batch) called() string {
	if b.name == "" {
		return "wrap"
	}
	return b.name
}

func (b *Batch) workdir(here string) string {
	if b.chdir == "" || path.IsAbs(b.chdir) {
		return b.chdir
	}
	return path.Join(here, b.chdir)
}

// environment returns the variables of the script in addition to those of a task: the exported ones, and Slurm's
// variables about the submit and the allocation.
func (b *Batch) environment(s shape, amount *messages.Resources, from Submitter) (env []*messages.EnvVar, err error) {
	set, err := b.exported(from.Env)
	if err != nil {
		return nil, err
	}
	b.ownInContainer(set, from.Env)
	add := func(name, value string) { set[name] = value }
	add("SLURM_SUBMIT_DIR", from.Dir)
	add("SLURM_SUBMIT_HOST", from.Host)
	add("SLURM_JOB_NAME", b.called())
	add("SLURM_NTASKS", decimal(s.tasks))
	add("SLURM_NPROCS", decimal(s.tasks))
	add("SLURM_CPUS_ON_NODE", decimal(amount.GetMilliCpu()/1000))
	if s.apart || s.gang == 1 {
		// A task here may contain several of Slurm's tasks. A thread per CPU of the node would be too many
		// for each of them.
		add("SLURM_CPUS_PER_TASK", decimal(max(b.cpusPerGPU*amount.GetMilliGpu()/1000/s.each, 1)))
		add("SLURM_NTASKS_PER_NODE", decimal(s.each))
		add("SLURM_TASKS_PER_NODE", repeated(s.each, s.gang, s.tasks))
		add("SLURM_JOB_CPUS_PER_NODE", repeated(amount.GetMilliCpu()/1000, s.gang, s.gang*amount.GetMilliCpu()/1000))
	}
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"SLURM_NTASKS_PER_NODE", b.tasksPerNode}, {"SLURM_CPUS_PER_TASK", b.cpusPerTask},
		{"SLURM_CPUS_PER_GPU", b.cpusPerGPU},
		{"SLURM_GPUS", b.gpus}, {"SLURM_GPUS_PER_NODE", b.gpusPerNode}, {"SLURM_GPUS_PER_TASK", b.gpusPerTask},
		{"SLURM_GPUS_ON_NODE", amount.GetMilliGpu() / 1000}, {"SLURM_MEM_PER_NODE", b.memory >> 20},
		{"SLURM_MEM_PER_CPU", b.memoryPerCPU >> 20}, {"SLURM_MEM_PER_GPU", b.memoryPerGPU >> 20},
	} {
		if v.value > 0 {
			add(v.name, decimal(v.value))
		}
	}
	for _, v := range [][2]string{
		{"SLURM_JOB_PARTITION", b.partition}, {"SLURM_JOB_ACCOUNT", b.account}, {"SLURM_JOB_QOS", b.qos},
		{"SLURM_JOB_USER", from.User}, {"SLURM_JOB_CONTAINER_IMAGE", b.container.image},
	} {
		if v[1] != "" {
			add(v[0], v[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, &messages.EnvVar{Name: name, Value: set[name]})
	}
	return env, nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// repeated formats a number per node, such as 4(x2),3.
func repeated(each, nodes, total int64) string {
	full, rest := min(total/each, nodes), total%each
	var parts []string
	switch {
	case full > 1:
		parts = append(parts, fmt.Sprintf("%d(x%d)", each, full))
	case full == 1:
		parts = append(parts, decimal(each))
	}
	if rest > 0 {
		parts = append(parts, decimal(rest))
	}
	return strings.Join(parts, ",")
}

// ownHere lists variables that belong to the submit host and its shell.
var ownHere = []string{"_", "PWD", "OLDPWD", "SHLVL", "TERM", "TMPDIR", "HOSTNAME", "SSH_CLIENT", "SSH_CONNECTION",
	"SSH_TTY",
	"SSH_AUTH_SOCK", "DISPLAY", "XDG_RUNTIME_DIR", "XDG_SESSION_ID", "DBUS_SESSION_BUS_ADDRESS"}

// exported returns the exported variables: ALL, NONE, or a list, which may contain ALL.
func (b *Batch) exported(here []string) (set map[string]string, err error) {
	all := false
	set = map[string]string{}
	named := map[string]bool{}
	for word := range strings.SplitSeq(b.export, ",") {
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
	if bytes > messages.MaxEnvBytes/2 {
		return nil, &Refusal{Option: "--export",
			Text: fmt.Sprintf("local environment has %d bytes, but a job can carry only %d",
				bytes, messages.MaxEnvBytes/2), Hint: "use --export=NONE, or list the variables that the script needs"}
	}
	return set, nil
}

// exportable reports whether a variable may be exported without being named.
func exportable(name string) bool {
	if strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "SBATCH_") || messages.ReservedEnv(name) {
		return false
	}
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" &&
		(name[0] < '0' || name[0] > '9')
}
