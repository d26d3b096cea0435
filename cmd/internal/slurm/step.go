package slurm

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file parses srun and salloc outside a script: their options, and which of them apply to the allocation or to
// a step in it. The options for the allocation are those of sbatch.

// step holds the options of a step.
type step struct {
	label, strict, terminal, noInput, noShell, kills, several, lists bool
	killSignal, job                                                  string
	passed                                                           []string // options that srun in the job applies
}

var (
	forSrun   = &program{"srun", "SLURM_", stepOptions}
	forSalloc = &program{"salloc", "SALLOC_", roomOptions}
)

// ofScripts lists options of sbatch that srun and salloc lack, or in which they have another meaning.
var ofScripts = []string{"array", "wrap", "parsable", "wait", "hold", "test-only", "output", "error", "open-mode",
	"input",
	"requeue", "no-requeue", "batch", "export-file", "ignore-pbs", "get-user-env"}

// roomOptions returns the options of salloc.
func roomOptions() []option {
	return append(interactive(),
		option{"no-shell", "", "yes", yes(func(b *Batch) *bool { return &b.step.noShell })},
		option{"kill-command", "K", "TERM", setKillCommand},
		option{"bell", "", "yes", common(sbatch.None)}, option{"no-bell", "", "yes", common(sbatch.None)},
		option{"wait-all-nodes", "", "", exactly("1", "a gang starts with all its tasks")},
		option{"get-user-env", "", "yes", never("the command runs on this host with its environment")},
	)
}

// stepOptions returns the options of srun.
func stepOptions() []option {
	all := append(interactive(),
		option{"label", "l", "yes", yes(func(b *Batch) *bool { return &b.step.label })},
		option{"kill-on-bad-exit", "K", "1", setStrict},
		option{"pty", "", "yes", yes(func(b *Batch) *bool { return &b.step.terminal })},
		option{"jobid", "", "", text(func(b *Batch) *string { return &b.step.job })},
		option{"input", "i", "", setStepInput},
		option{"output", "o", "", setStepFile("output")}, option{"error", "e", "", setStepFile("error")},
		option{"open-mode", "", "", handed("open-mode", common(sbatch.SetOpenMode))},
		option{"multi-prog", "", "yes", handed("multi-prog", yes(func(b *Batch) *bool { return &b.step.several }))},
		option{"wait", "W", "", handed("wait", setStepWait)}, option{"relative", "r", "", handed("relative", setRelative)},
		option{"mpi", "", "", handed("mpi", setMPI)},
		option{"cpu-bind", "", "", setCPUBind},
		option{"overlap", "", "yes", common(sbatch.None)},
		option{"exact", "", "yes", common(sbatch.None)}, option{"unbuffered", "u", "yes", common(sbatch.None)},
		option{"external-launcher", "", "yes", common(sbatch.None)},
		option{"disable-status", "X", "yes", common(sbatch.None)},
	)
	for _, o := range []struct{ long, short, bare, why string }{
		{"array", "a", "", "use sbatch for arrays"},
		{"test-only", "", "yes", "use sbatch --test-only"},
		{"bcast", "", "yes", "files are not sent"},
		{"preserve-env", "E", "yes", "a step has its own sizes"},
		{"quit-on-interrupt", "", "yes", "Ctrl-C is sent to the step immediately"},
		{"prolog", "", "", "use the agent's --prolog, which runs before each job"},
		{"epilog", "", "", "use the agent's --epilog, which runs after each job"},
		{"task-prolog", "", "", "set it in the command"}, {"task-epilog", "", "", "set it in the command"},
		{"het-group", "", "", "all tasks of a job are alike"}, {"threads", "T", "", "it has no effect"},
	} {
		all = append(all, option{o.long, o.short, o.bare, never(o.why)})
	}
	return all
}

// interactive returns the options of both.
func interactive() []option {
	all := slices.DeleteFunc(options(), func(o option) bool { return slices.Contains(ofScripts, o.long) })
	return append(all,
		option{"hold", "H", "yes", never("use sbatch --hold; srun could not release the job")},
		option{"immediate", "I", "1", never("Ctrl-C ends the wait and cancels the job")},
	)
}

// setCPUBind accepts every value without an effect, because processes are not bound to cores here.
func setCPUBind(b *Batch, value string) error {
	switch strings.ToLower(value) {
	case "none", "no", "q", "quiet":
		return nil
	}
	return pass("--cpu-bind")(b, value)
}

// setMPI accepts the interfaces between srun and MPI that Slurm has. srun in the job prints the warnings.
func setMPI(b *Batch, value string) error {
	version, is := strings.CutPrefix(value, "pmix_v")
	switch {
	case value == "list":
		b.step.lists = true
	case is && version != "" && strings.Trim(version, "0123456789") == "":
	case !slices.Contains([]string{"none", "pmi1", "pmi2", "pmix", "openmpi"}, value):
		return refuse("use pmi2 (MPICH), pmix (accepted, has no effect), none or list",
			"%q is not an MPI interface of Slurm", value)
	}
	return nil
}

// MPITypes is the text that srun --mpi=list prints.
const MPITypes = "MPI plugin types are...\n\tnone\n\tpmi1\n\tpmi2\n"

// ListsMPI reports whether srun only prints MPITypes.
func (b *Batch) ListsMPI() bool { return b.step.lists }

func setStrict(b *Batch, value string) error {
	if value != "0" && value != "1" {
		return refuse("use 0 or 1", "%q", value)
	}
	b.step.strict = value == "1"
	return nil
}

func setKillCommand(b *Batch, value string) error {
	b.step.kills, b.step.killSignal = true, value
	return nil
}

// setStepInput accepts none, all, the rank of the process that reads srun's input, and a file on the first node, which
// all processes read. By default, the first process reads srun's input.
func setStepInput(b *Batch, value string) error {
	switch {
	case value == "":
		return refuse("use none, a rank or a file", "is empty")
	case value == "none" || value == "/dev/null":
		b.step.noInput = true
		return handed("input", common(sbatch.None))(b, "none")
	case strings.Trim(value, "0123456789") == "":
		return handed("input", common(sbatch.None))(b, value)
	}
	b.step.noInput = value != "all"
	return setStepFile("input")(b, value)
}

// handed keeps an option for srun in the job, which applies it.
func handed(name string, check setter) setter {
	return func(b *Batch, value string) error {
		if err := check(b, value); err != nil {
			return err
		}
		word := "--" + name + "=" + value
		if name == "multi-prog" {
			word = "--" + name
		}
		b.step.passed = append(b.step.passed, word)
		return nil
	}
}

// fileMark precedes the name of a file in passed, which is relative to the folder of the submit.
const fileMark = "\x00"

// setStepFile accepts none, all, a rank, or the name of a file with placeholders.
func setStepFile(name string) setter {
	return func(b *Batch, value string) error {
		if err := text(func(*Batch) *string { return new(string) })(b, value); err != nil {
			return err
		}
		if _, err := b.Pattern("--"+name, value); err != nil {
			return err
		}
		if value != "none" && value != "all" && strings.Trim(value, "0123456789") != "" {
			value = fileMark + value
		}
		b.step.passed = append(b.step.passed, "--"+name+"="+value)
		return nil
	}
}

// setStepWait accepts seconds.
func setStepWait(_ *Batch, value string) error {
	if n, err := strconv.ParseInt(value, 10, 32); err != nil || n < 0 {
		return refuse("", "%q is not a number of seconds", value)
	}
	return nil
}

func setRelative(_ *Batch, value string) error {
	if n, err := strconv.ParseInt(value, 10, 32); err != nil || n < 0 {
		return refuse("", "%q is not a number of nodes", value)
	}
	return nil
}

// ParseStep parses a command line of srun.
func ParseStep(words []string, lookup func(string) (string, bool)) (b *Batch, command []string, err error) {
	b = newBatch(forSrun)
	if command, err = b.take(words); b.step.job == "" {
		b.step.job, _ = lookup("SLURM_JOB_ID")
	}
	if b.step.job == "" { // in a job, SLURM_GPUS etc. describe the job and request nothing
		b, command, err = parseRoom(forSrun, words, lookup)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case b.step.lists:
		return b, nil, nil
	case len(command) == 0:
		return nil, nil, &Refusal{Option: "COMMAND", Text: "is missing"}
	case b.step.job == "" && slices.Contains(command, ":"):
		return nil, nil, &Refusal{Option: ":", Text: "several components need different resources, and a job has one kind",
			Hint: "run srun with components in a job of sbatch or salloc"}
	}
	b.Name = cmp.Or(b.Name, path.Base(command[0]))
	return b, command, b.checkStep()
}

// ParseRoom parses a command line of salloc. The default command is a shell.
func ParseRoom(words []string, lookup func(string) (string, bool)) (b *Batch, command []string, err error) {
	b, command, err = parseRoom(forSalloc, words, lookup)
	if err != nil {
		return nil, nil, err
	}
	if len(command) > 0 && b.step.noShell {
		return nil, nil, &Refusal{Option: "--no-shell", Text: "cannot be combined with the command " + command[0]}
	}
	usual := "interactive"
	if len(command) > 0 {
		usual = path.Base(command[0])
	}
	b.Name = cmp.Or(b.Name, usual)
	return b, command, nil
}

func parseRoom(p *program, words []string, lookup func(string) (string, bool)) (*Batch, []string, error) {
	b := newBatch(p)
	if err := b.variables(lookup); err != nil {
		return b, nil, err
	}
	command, err := b.take(words)
	return b, command, err
}

// ofSteps lists the options of a step in an existing job, which cannot request resources.
var ofSteps = []string{"label", "kill-on-bad-exit", "pty", "jobid", "input", "mpi", "cpu-bind", "overlap", "exact",
	"unbuffered", "nodes", "ntasks", "ntasks-per-node", "nodelist", "gpus-per-task", "cpus-per-task", "job-name", "chdir",
	"export", "quiet", "verbose", "output", "error", "open-mode", "multi-prog", "wait", "relative", "external-launcher",
	"disable-status", "exclude", "time", "account", "partition", "qos", "comment", "wckey", "exclusive", "oversubscribe"}

// ofJobs lists the options of a job that scripts also pass to a step. They have no effect there, because all processes
// share the resources of their nodes.
var ofJobs = []string{"mem", "mem-per-cpu", "mem-per-gpu", "gres", "gpus", "gpus-per-node", "cpus-per-gpu"}

// checkStep refuses options that a step in an existing job cannot have.
func (b *Batch) checkStep() error {
	if b.step.job == "" {
		return nil
	}
	for _, o := range b.program.options() {
		switch {
		case !b.Given[o.long] || slices.Contains(ofSteps, o.long) || slices.ContainsFunc(passed, o.named):
		case slices.Contains(ofJobs, o.long):
			b.warnings = append(b.warnings, "--"+o.long+" has no effect on a step, whose processes share their nodes")
		default:
			return &Refusal{Option: "--" + o.long, Text: "applies to jobs, and this is a step in job " + b.step.job,
				Hint: "pass it to salloc or sbatch"}
		}
	}
	return nil
}

// InJob returns the job in which srun runs a step, or "" if srun creates a job.
func (b *Batch) InJob() string { return b.step.job }

// Terminal reports whether the first process has the terminal.
func (b *Batch) Terminal() bool { return b.step.terminal }

// Input reports whether a step reads input.
func (b *Batch) Input() bool { return !b.step.noInput }

// NoShell reports whether salloc exits after the allocation.
func (b *Batch) NoShell() bool { return b.step.noShell }

// KillCommand returns the signal for salloc's command if its allocation ends first. ok is false if the option is
// not set.
func (b *Batch) KillCommand() (name string, ok bool) { return b.step.killSignal, b.step.kills }

// First returns the first named node, or "".
func (b *Batch) First() string {
	if len(b.nodelist) == 0 {
		return ""
	}
	return b.nodelist[0]
}

// Room returns the job that holds an allocation. Rank 0 runs the keeper.
func (b *Batch) Room(keeper, manner string, from Submitter) (*messages.JobSpec, error) {
	return b.job([]byte("#!/bin/sh\n"+keeper), "", []string{manner}, from)
}

// stepText runs on the first node. Its arguments are the step's folder and command.
const stepText = `d=${SYNAPSE_HOSTFILE%/*}/slurm
n=0
until [ -x "$d/bin/srun" ] || [ -z "$SLURM_SUBMIT_DIR" ] || [ "$n" = 100 ]; do # the job may just have begun
  sleep 0.1
  n=$((n + 1))
done
if ! [ -x "$d/bin/srun" ]; then
  echo "srun: error: job $SLURM_JOB_ID has no steps: it is none of sbatch, salloc or srun" >&2
  exit 1
fi
PATH=$d/bin:$PATH
SLURM_JOBID=$SLURM_JOB_ID
export PATH SLURM_JOBID
if [ -n "$1" ] && ! cd "$1" 2>/dev/null; then
  echo "srun: error: couldn't chdir to $1 on $SYNAPSE_NODE: it begins in $PWD" >&2
fi
shift
exec "$@"`

// Step returns the command and the environment that run a step in a job from outside.
func (b *Batch) Step(command []string, from Submitter) (words, env []string, err error) {
	dir := ""
	run := []string{"srun"}
	add := func(option, value string) {
		if b.Given[option] {
			run = append(run, "--"+option+value)
		}
	}
	if b.step.job != "" {
		dir = cmp.Or(b.Workdir(from.Dir), from.Dir)
		add("nodes", "="+sbatch.Decimal(b.Nodes))
		add("ntasks", "="+sbatch.Decimal(b.Tasks))
		add("ntasks-per-node", "="+sbatch.Decimal(b.TasksPerNode))
		add("gpus-per-task", "="+sbatch.Decimal(b.GPUsPerTask))
		add("cpus-per-task", "="+sbatch.Decimal(b.CPUsPerTask))
		add("time", "=0:"+sbatch.Decimal(b.TimeLimitMs/1000))
		if len(b.exclude) > 0 {
			run = append(run, "--exclude="+strings.Join(b.exclude, ","))
		}
		if len(b.nodelist) > 0 {
			run = append(run, "--nodelist="+strings.Join(b.nodelist, ","))
		}
		set, err := b.Exported(from.Env)
		if err != nil {
			return nil, nil, err
		}
		for name, value := range set { //order: sorted below
			env = append(env, name+"="+value)
		}
		slices.Sort(env)
	}
	add("label", "")
	if b.step.strict {
		run = append(run, "--kill-on-bad-exit=1")
	}
	for _, word := range b.step.passed {
		if option, name, is := strings.Cut(word, fileMark); is && path.IsAbs(name) {
			word = option + name
		} else if is {
			word = option + path.Join(from.Dir, name)
		}
		run = append(run, word)
	}
	run = append(run, "--")
	if b.step.terminal {
		run, env = nil, append(env, "SLURM_STEPID=0")
	}
	return slices.Concat([]string{"/bin/sh", "-c", stepText, "srun", dir}, run, command), env, nil
}
