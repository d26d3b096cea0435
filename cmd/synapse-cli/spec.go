package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/spelling"
)

// This file describes a job for `submit`, from a file or from flags.

// specFlags holds the flags that describe a job. Each is a text in the notation of a job file.
type specFlags struct {
	gpu, cpu, mem, gpuType, split, image, name, queue, workdir, user, timeLimit string
	begin, deadline, array                                                      string
	network, launcher, warn, checkpoint, hang                                   string
	preemptible                                                                 bool
	required, preferred                                                         string
	shm, disk, stopSignal, grace, patience, backoff, cpusEach                   string
	gpusInAll, gpusEach                                                         string
	prepareTimeout, lostGrace, stopWhenLost                                     string
	replicas, priority                                                          int32
	restarts                                                                    restarts
	inPlace                                                                     bool
	spares                                                                      int32
	counted, prioritised                                                        bool // --replicas, --priority were given
	env, label, selector, mount, nodes, exclude, after                          []string
	machines                                                                    string
	script                                                                      *messages.Script
}

// add adds the flags. flagGroups defines their order in the help.
func (s *specFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.gpu, "gpu", "",
		"number of GPUs in total, or per node if --nodes is set; with several --replicas, use --gpus-per-task or --gpus")
	f.StringVar(&s.cpu, "cpu", "",
		"number of CPU cores in total, or per task if --replicas is set (default: 1 per task if no resource is "+
			"requested)")
	f.StringVar(&s.mem, "mem", "", "memory in total, or per task if --replicas is set, such as 512Gi")
	f.Int32VarP(&s.replicas, "replicas", "n", 0,
		"number of tasks, each with the requested resources (default: one task per node; the resource flags are "+
			"totals)")
	f.StringVar(&s.split, "split", "",
		"split of total resources over nodes: whole (complete nodes, and a part of one node for the rest) or any "+
			"(any free parts of nodes)")
	f.StringVar(&s.gpuType, "gpu-type", "", "required GPU type")
	f.StringVar(&s.image, "image", "", "container image, a directory or archive on the nodes, or host for the root "+
		"of the node itself")
	f.StringVar(&s.name, "name", "", "name of the job (default: the name of the command)")
	f.StringVar(&s.queue, "queue", "", "queue of the job")
	f.Int32Var(&s.priority, "priority", 0, "priority of the job; jobs with higher priority start first")
	f.StringVar(&s.required, "required", "", "topology level, such as zone; all tasks must be in one domain of "+
		"this level")
	f.StringVar(&s.preferred, "preferred", "", "topology level, such as rack; all tasks should be in one domain of "+
		"this level")
	f.StringArrayVarP(&s.env, "env", "e", nil,
		"environment variable `NAME=value` for the tasks; NAME alone copies the local value")
	f.StringArrayVarP(&s.label, "label", "l", nil, "job label `key=value`")
	f.StringArrayVar(&s.selector, "node-selector", nil, "node label `key=value` that all nodes of the job must have")
	f.StringVarP(&s.machines, "nodes", "N", "", "number of tasks, each on a separate node, as in Slurm")
	f.StringSliceVarP(&s.nodes, "nodelist", "w", nil, "run only on these `nodes`, such as n1,n2")
	f.StringSliceVarP(&s.exclude, "exclude", "x", nil, "never run on these `nodes`")
	f.StringArrayVar(&s.mount, "mount", nil, "bind mount `source:target[:ro]`")
	f.StringVar(&s.workdir, "workdir", "", "working directory of the tasks")
	f.StringVar(&s.user, "user", "",
		"`account` on the nodes that runs the tasks; the value me is the account with your name (default: a "+
			"separate uid per job)")
	f.StringVar(&s.network, "network", "", "network of the tasks: host (the node's network), none or private")
	f.StringVar(&s.launcher, "launcher", "",
		"process launcher in each task: "+strings.Join(messages.LaunchWords(), ", "))
	f.StringVarP(&s.array, "array", "a", "",
		"indexes of an array with one job per index, such as 0-99, 0-99%10 (at most ten run at once), 0-9:2 or 1,5,7")
	f.StringArrayVar(&s.after, "after", nil,
		"start after the end of these `jobs`, such as J1,J2 or J:any; the suffix :ok (default) requires success, "+
			":failed requires any other end, :any accepts both, :started or :started+10m requires a start")
	s.addMoments(f)
	f.StringVarP(&s.timeLimit, "time-limit", "t", "", "maximum run time of an attempt, such as 24h or 24:00:00")
	f.Var(&s.restarts, "restarts", "maximum `number` of restarts after a failure (default 0); the value never also "+
		"forbids a new attempt after the loss of a node")
	f.StringVar(&s.backoff, "backoff", "", "delay before the first restart; each further restart doubles the delay")
	f.StringVar(&s.patience, "patience", "", "maximum time to wait for the --preferred topology level")
	f.StringVar(&s.shm, "shm", "", "size of shared memory (/dev/shm) per task; it is a part of the memory of the "+
		"task")
	f.StringVar(&s.disk, "disk", "", "maximum disk space per task on its node (default: a tenth of the free space)")
	f.StringVar(&s.warn, "warn", "", "signal that warns tasks before they are stopped, and how long before, such "+
		"as USR1@120s")
	f.BoolVar(&s.preemptible, "preemptible", true,
		"allow preemption of this job; if false, the job runs only within the quota of its queue")
	s.addSaves(f)
	f.StringVar(&s.stopSignal, "stop-signal", "", "signal sent first when stopping a task, such as INT (default: TERM)")
	f.StringVar(&s.grace, "grace", "", "time between --stop-signal and KILL")
	f.StringVar(&s.prepareTimeout, "prepare-timeout", "", "maximum time to prepare images")
	f.StringVar(&s.lostGrace, "lost-grace", "", "time to wait for a lost node before the attempt ends")
	f.StringVar(&s.stopWhenLost, "stop-when-lost", "",
		"time without contact to a scheduler after which tasks stop themselves")
	f.StringVarP(&s.cpusEach, "cpus-per-task", "c", "", "number of CPU cores per task, as in Slurm")
	f.StringVar(&s.gpusEach, "gpus-per-task", "", "number of GPUs per task, also with --replicas or --nodes")
	f.StringVar(&s.gpusInAll, "gpus", "",
		"number of GPUs in total over all tasks, also with --replicas or --nodes, as in Slurm")
}

// given returns the first given flag of a description.
func (s *specFlags) given(f *pflag.FlagSet) string {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&specFlags{}).add(own)
	name := ""
	f.Visit(func(flag *pflag.Flag) {
		if own.Lookup(flag.Name) != nil && name == "" {
			name = "--" + flag.Name
		}
	})
	return name
}

// spec returns the job that the flags describe.
func (s *specFlags) spec(command []string, lookup func(string) (string, bool)) (*messages.JobSpec, error) {
	spec := &messages.JobSpec{
		Queue: s.queue, Priority: s.priority, GpuType: s.gpuType, Image: s.image, Command: command,
		Workdir: s.workdir, User: s.user, NotPreemptible: !s.preemptible,
		Script: s.script, PriorityZero: s.prioritised && s.priority == 0,
	}
	if s.script != nil && spec.Image == "" {
		spec.Image = messages.HostImage // the root file system of the nodes; a job that needs an image is refused early
	}
	if s.name != "" && !messages.Titled(s.name) {
		return nil, exit.Hint(messages.TitleHint, "--name: %q is not a name", s.name)
	}
	if spec.Call(s.name); spec.Name == "" {
		spec.Name = defaultName(append(command, s.script.GetName()), s.image)
	}
	// Parts without a given flag stay unset.
	topology, restart, stop := &messages.TopologySpec{Required: s.required, Preferred: s.preferred},
		&messages.RestartSpec{Limit: s.restarts.limit, Never: s.restarts.never, InPlace: s.inPlace,
			Spares: s.spares}, &messages.StopSpec{}
	amount := &messages.Resources{}
	if err := s.slurm(); err != nil {
		return nil, err
	}
	if err := s.amounts(spec, amount, topology, restart, stop); err != nil {
		return nil, err
	}
	if len(command) > 0 && command[0] == "" {
		return nil, exit.Hint("name the program to run, as in -- ./train.sh", "command is empty")
	}
	if s.stopSignal != "" {
		var problem *jobfile.Problem
		if stop.Signal, problem = jobfile.ParseSignal(s.stopSignal); problem != nil {
			return nil, flagProblem("stop-signal", problem)
		}
	}
	if err := s.words(spec); err != nil {
		return nil, err
	}
	if messages.Size(topology) > 0 {
		spec.Topology = topology
	}
	if messages.Size(restart) > 0 {
		spec.Restart = restart
	}
	if messages.Size(stop) > 0 {
		spec.Stop = stop
	}
	if err := s.shape(spec, amount); err != nil {
		return nil, err
	}
	if err := s.lists(spec, lookup); err != nil {
		return nil, err
	}
	if err := jobfile.Valid(spec); err != nil {
		return nil, refusedSpec(err)
	}
	return spec, nil
}

// words parses the flags whose values are fixed words.
func (s *specFlags) words(spec *messages.JobSpec) error {
	var ok bool
	if spec.Network, ok = messages.NetworkOf(s.network); !ok && s.network != "" {
		return exit.Usage("--network %q: must be one of %s", s.network, strings.Join(messages.NetworkWords(), ", "))
	}
	if spec.Launcher, ok = messages.LaunchOf(s.launcher); !ok && s.launcher != "" {
		return exit.Hint(spelling.Meant(s.launcher, messages.LaunchWords()), "--launcher %q: unknown launcher",
			s.launcher)
	}
	if s.array != "" {
		var problem *jobfile.Problem
		if spec.Array, problem = jobfile.ParseArray(s.array); problem != nil {
			return flagProblem("array", problem)
		}
	}
	for _, text := range s.after {
		all, problem := jobfile.ParseAfter(text)
		if problem != nil {
			return flagProblem("after", problem)
		}
		spec.After = append(spec.After, all...)
	}
	if s.warn != "" {
		var problem *jobfile.Problem
		if spec.Warn, problem = jobfile.ParseWarn(s.warn); problem != nil {
			return flagProblem("warn", problem)
		}
	}
	return s.saves(spec)
}

// amounts parses the flags for amounts and times.
func (s *specFlags) amounts(spec *messages.JobSpec, amount *messages.Resources, topology *messages.TopologySpec,
	restart *messages.RestartSpec, stop *messages.StopSpec) error {
	for _, a := range []struct {
		flag, text string
		parse      func(string) (int64, error)
		to         *int64
	}{
		{"gpu", s.gpu, jobfile.ParseGPU, &amount.MilliGpu}, {"cpu", s.cpu, jobfile.ParseCPU, &amount.MilliCpu},
		{"mem", s.mem, jobfile.ParseMemory, &amount.MemoryBytes},
		{"time-limit", s.timeLimit, jobfile.ParseDuration, &spec.TimeLimitMs},
		{"begin", s.begin, jobfile.ParseMoment, &spec.BeginUnixMs},
		{"deadline", s.deadline, jobfile.ParseMoment, &spec.DeadlineUnixMs},
		{"shm", s.shm, jobfile.ParseMemory, &spec.ShmBytes}, {"disk", s.disk, jobfile.ParseMemory, &spec.DiskBytes},
		{"patience", s.patience, jobfile.ParseDuration, &topology.PatienceMs},
		{"backoff", s.backoff, jobfile.ParseDuration, &restart.BackoffMs},
		{"grace", s.grace, jobfile.ParseDuration, &stop.GraceMs},
		{"prepare-timeout", s.prepareTimeout, jobfile.ParseDuration, &spec.PrepareTimeoutMs},
		{"lost-grace", s.lostGrace, jobfile.ParseDuration, &spec.LostGraceMs},
		{"stop-when-lost", s.stopWhenLost, jobfile.ParseDuration, &spec.StopWhenLostMs},
	} {
		if a.text == "" {
			continue
		}
		n, err := a.parse(a.text)
		if err != nil {
			return flagProblem(a.flag, err)
		}
		*a.to = n
	}
	return nil
}

func flagProblem(flag string, err error) error {
	p := err.(*jobfile.Problem)
	return exit.Hint(p.Hint, "--%s: %s", flag, p.Text)
}

// slurm accepts Slurm's flags that have a single meaning here.
func (s *specFlags) slurm() error {
	if err := s.apart(); err != nil {
		return err
	}
	switch {
	case s.cpusEach != "" && s.cpu != "":
		return exit.Usage("--cpus-per-task and --cpu cannot be combined")
	case s.gpusEach != "" && s.gpu+s.gpusInAll != "":
		return exit.Usage("--gpus-per-task cannot be combined with --gpu or --gpus")
	case s.gpusEach != "":
		s.each()
		return nil
	case s.gpusInAll != "" && (s.gpu != "" || s.cpusEach != "" && !s.counted):
		return exit.Hint("use --gpus-per-task, which applies to each task",
			"--gpus (a total) cannot be combined with --cpus-per-task (per task)")
	case s.ambiguous() > 0:
		return exit.Hint(fmt.Sprintf("use --gpus-per-task %s for %d GPUs, or --gpus %s for %s GPUs in total", s.gpu,
			s.ambiguous()*int64(s.replicas), s.gpu, s.gpu),
			"--gpu %s with --replicas %d could mean %s GPUs per task or in total", s.gpu, s.replicas, s.gpu)
	case s.gpusInAll != "" && s.counted:
		return s.share()
	case s.cpusEach != "":
		s.cpu = s.cpusEach
		if !s.counted {
			s.counted, s.replicas = true, 1
		}
	case s.gpusInAll != "":
		s.gpu = s.gpusInAll
	}
	return nil
}

// each applies --gpus-per-task. Without a number of tasks, the job has one task.
func (s *specFlags) each() {
	s.gpu, s.cpu = s.gpusEach, cmp.Or(s.cpu, s.cpusEach)
	if !s.counted {
		s.counted, s.replicas = true, 1
	}
}

// ambiguous returns the number of GPUs of --gpu if it could be a total or an amount per task, and 0 otherwise. A part
// of a GPU can only be per task.
func (s *specFlags) ambiguous() int64 {
	if n, err := strconv.ParseInt(s.gpu, 10, 32); err == nil && s.machines == "" && s.replicas > 1 {
		return n
	}
	return 0
}

// share gives each of the tasks its part of a total of GPUs.
func (s *specFlags) share() error {
	total, err := strconv.ParseInt(s.gpusInAll, 10, 32)
	switch {
	case err != nil || total < 1:
		return exit.Hint("use --gpus-per-task for a fraction of a GPU", "--gpus %q: must be a whole number of GPUs",
			s.gpusInAll)
	case s.replicas < 1: // refused by the name of its flag
	case total%int64(s.replicas) != 0:
		return exit.Hint("use --gpus-per-task, which applies to each task", "--gpus %d: not divisible by %d tasks", total,
			s.replicas)
	default:
		s.gpu = strconv.FormatInt(total/int64(s.replicas), 10)
	}
	s.cpu = cmp.Or(s.cpu, s.cpusEach)
	return nil
}

// apart handles -N: one task per node.
func (s *specFlags) apart() error {
	if s.machines == "" {
		return nil
	}
	n, err := strconv.ParseInt(s.machines, 10, 32)
	switch {
	case err != nil && strings.Contains(s.machines, "-") && strings.Trim(s.machines, "0123456789-") == "":
		return exit.Hint("use one number", "--nodes %s: ranges are not supported, because a gang has a fixed size",
			s.machines)
	case err != nil || n < 1:
		return exit.Hint("use --nodelist (-w) to name nodes", "--nodes %q: must be a number of nodes", s.machines)
	case s.counted:
		return exit.Hint("use one of them: with --replicas alone, a node may run several tasks",
			"--nodes (-N) and --replicas (-n) cannot be combined")
	}
	s.counted, s.replicas = true, int32(n)
	return nil
}

// shape decides whether amounts are totals. They are, unless the number of tasks is given, or a part of one GPU is
// requested, which only a single task can have.
func (s *specFlags) shape(spec *messages.JobSpec, amount *messages.Resources) error {
	g := &messages.GangSpec{}
	if s.gpu+s.cpu+s.mem == "" { // the default is one CPU core, as in Slurm
		amount.MilliCpu = messages.DefaultMilliCPU
		if !s.counted {
			s.counted, s.replicas = true, 1
		}
	}
	spec.Gang = g
	if s.counted || amount.MilliGpu > 0 && amount.MilliGpu < 1000 {
		if s.split != "" {
			return exit.Usage("--split requires total amounts, and these amounts are per task")
		}
		n := s.replicas
		if !s.counted {
			n = 1
		}
		g.ReplicasMin, g.ReplicasMax, g.Apart, spec.Each = n, n, s.machines != "", amount
		return nil
	}
	g.Total, g.Split = amount, messages.Split_SPLIT_WHOLE
	switch s.split {
	case "", "whole":
	case "any":
		g.Split = messages.Split_SPLIT_ANY
	default:
		return exit.Usage("--split %q: must be whole or any", s.split)
	}
	return nil
}

func (s *specFlags) lists(spec *messages.JobSpec, lookup func(string) (string, bool)) error {
	for _, entry := range s.env {
		name, value, has := strings.Cut(entry, "=")
		if !has {
			var there bool
			if value, there = lookup(name); !there {
				return exit.Hint("use --env "+name+"=value", "--env %s: environment variable is not set", name)
			}
		}
		spec.Env = append(spec.Env, &messages.EnvVar{Name: name, Value: value})
	}
	var err error
	if spec.Labels, err = parseLabels("label", s.label); err != nil {
		return err
	}
	if spec.NodeSelector, err = parseLabels("node-selector", s.selector); err != nil {
		return err
	}
	for _, name := range slices.Concat(s.nodes, s.exclude) {
		if strings.ContainsAny(name, "[]") {
			return exit.Hint("name each node, as in n1,n2, or use a label and --node-selector",
				"%q: brackets in node names are not supported", name)
		}
	}
	spec.Nodes, spec.Exclude = s.nodes, s.exclude
	for _, entry := range s.mount {
		parts := strings.Split(entry, ":")
		if len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" {
			return exit.Hint("write source:target or source:target:ro", "--mount %q: invalid mount", entry)
		}
		readOnly := len(parts) == 3 && parts[2] == "ro"
		spec.Mounts = append(spec.Mounts, &messages.Mount{Source: parts[0], Target: parts[1], ReadOnly: readOnly})
	}
	return nil
}

// parseLabels parses key=value, also several separated by commas.
func parseLabels(flag string, entries []string) ([]*messages.Label, error) {
	var labels []*messages.Label
	for _, entry := range entries {
		for pair := range strings.SplitSeq(entry, ",") {
			key, value, has := strings.Cut(pair, "=")
			if !has || key == "" {
				return nil, exit.Hint("write key=value", "--%s %q: not a label", flag, pair)
			}
			labels = append(labels, &messages.Label{Key: key, Value: value})
		}
	}
	return labels, nil
}

// defaultName returns a name for a job from its command or image.
func defaultName(command []string, image string) string {
	from := path.Base(image)
	if len(command) > 0 && command[0] != "" {
		from = path.Base(command[0])
	}
	from, _, _ = strings.Cut(from, "@")
	if name := messages.NameOf(strings.TrimSuffix(from, path.Ext(from))); name != "" {
		return name
	}
	return "job"
}

// input reads a file, or standard input for -, and returns its name.
func input(name string, stdin io.Reader) (called string, data []byte, err error) {
	from, called := stdin, "standard input"
	if name == "" {
		return "", nil, exit.Hint("name the file, or use - for standard input", "file name is empty")
	}
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return name, nil, &exit.Failure{Code: exit.Misuse, Text: err.Error()}
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.IsDir() {
			return name, nil, exit.Usage("%s is a directory, not a file of jobs", name)
		}
		from, called = file, name
	}
	data, err = io.ReadAll(io.LimitReader(from, jobfile.MaxBytes+1))
	if err != nil {
		err = fmt.Errorf("%s: %w", called, err)
	}
	return called, data, err
}

// jobsOf reads the jobs of a file. For another kind of file, the error suggests a command.
func jobsOf(name string, data []byte) ([]*messages.JobSpec, error) {
	specs, _, err := jobsWithSources(name, data)
	return specs, err
}

// jobsWithSources reads the jobs of a file with the sources of their secrets.
func jobsWithSources(name string, data []byte) ([]*messages.JobSpec, []map[string]jobfile.Source, error) {
	specs, from, err := jobfile.ParseWithSources(data)
	problems, is := err.(jobfile.Problems)
	switch {
	case !is:
		return specs, from, err
	case bytes.HasPrefix(data, []byte("\ufeff#!")):
		return nil, nil,
			exit.Hint("save the script as UTF-8 without a byte order mark",
				"%s starts with a byte order mark and cannot be run as a script",
				name)
	case len(data) > 0 && len(data) <= jobfile.MaxBytes && !bytes.Contains(data, []byte("apiVersion")) &&
		!bytes.Contains(data, []byte("kind")):
		return nil, nil, exit.Hint(
			"start a script with #!; write a command after --, as in `submit --image host -- ./program`",
			"%s is neither a script nor a job file: a job file starts with `apiVersion: synapse/v1`", name)
	}
	return nil, nil, refusedFile(name, problems)
}

// addMoments adds the flags with a time of day.
func (s *specFlags) addMoments(f *pflag.FlagSet) {
	f.StringVarP(&s.begin, "begin", "b", "", "earliest start, such as 08:00 (today or tomorrow), 2026-11-24T08:00 "+
		"or now+2h")
	f.StringVar(&s.deadline, "deadline", "", "latest end of the job, such as 08:00 or now+4h; a waiting job is cancelled "+
		"when it could no longer end in time")
}
