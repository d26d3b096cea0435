package slurm

import (
	"slices"
	"strings"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file lists the options of sbatch, with the effect of each or the reason why it is not supported.

func options() []option {
	var all []option
	for _, o := range sbatch.Options() {
		all = append(all, option{o.Long, o.Short, o.Bare, common(o.Set)})
	}
	all = append(all, []option{
		{"begin", "b", "", setMoment(func(b *Batch) *int64 { return &b.beginUnixMs })},
		{"deadline", "", "", setMoment(func(b *Batch) *int64 { return &b.deadlineUnixMs })},
		{"array", "a", "", setArray},
		{"dependency", "d", "", setDependency},
		{"constraint", "C", "", setConstraint},
		{"nodelist", "w", "", hosts(func(b *Batch) *[]string { return &b.nodelist })},
		{"exclude", "x", "", hosts(func(b *Batch) *[]string { return &b.exclude })},
		{"exclusive", "", "node", setExclusive},
		{"signal", "", "", setSignal},
		{"switches", "", "", setSwitches},
		{"wait", "W", "yes", yes(func(b *Batch) *bool { return &b.Wait })},
		{"test-only", "", "yes", yes(func(b *Batch) *bool { return &b.TestOnly })},
		{"kill-on-invalid-dep", "", "", exactly("yes", "a job that can never start is cancelled")},
	}...)
	all = append(all, containerOptions()...)
	for name, why := range refused { //order: each flag is independent
		all = append(all, ofTable(name, never(why)))
	}
	for _, name := range passed {
		o := ofTable(name, nil)
		o.set = pass("--" + o.long)
		all = append(all, o)
	}
	return all
}

// ofTable returns an option by a name in the tables below. The letter is after a comma. A question mark means that
// no value is needed.
func ofTable(name string, set setter) option {
	short, bare := "", ""
	if long, letter, has := strings.Cut(name, ","); has {
		name, short = long, letter
	}
	if long, is := strings.CutSuffix(name, "?"); is {
		name, bare = long, "yes"
	}
	return option{name, short, bare, set}
}

// passed lists options without an effect here. Programs that write scripts for any cluster use them, so each is
// accepted with a warning.
var passed = []string{
	"mail-type", "mail-user", "clusters,M", "get-user-env?", "extra", "mcs-label", "hint",
	"distribution,m", "contiguous?", "spread-job?", "use-min-nodes?", "mem-bind", "cpu-freq", "gpu-freq", "gres-flags",
	"ntasks-per-socket", "ntasks-per-core", "sockets-per-node", "cores-per-socket", "threads-per-core",
	"extra-node-info,B", "profile", "acctg-freq", "propagate", "delay-boot", "power", "resv-ports", "stepmgr?",
	"ignore-pbs?", "cluster-constraint",
}

// pass accepts an option, and warns that it has no effect.
func pass(name string) setter {
	return func(b *Batch, value string) error {
		if name == "--mail-type" && strings.EqualFold(value, "NONE") {
			return nil
		}
		if warning := name + " has no effect on this cluster"; !slices.Contains(b.warnings, warning) {
			b.warnings = append(b.warnings, warning)
		}
		return nil
	}
}

// refused lists unsupported options, with an alternative for each.
var refused = map[string]string{
	"reservation":    "reservations are not supported: use --constraint=KEY=VALUE for a labelled node",
	"licenses,L":     "licenses are not supported",
	"bb":             "burst buffers are not supported",
	"bbf":            "burst buffers are not supported",
	"no-kill?,k":     "a gang ends if it loses a node",
	"overcommit?,O":  "each task has the cores that it requests",
	"ntasks-per-gpu": "use --gpus-per-task",
	"core-spec,S":    "reserved cores are not supported",
	"thread-spec":    "reserved threads are not supported",
	"mincpus":        "use --cpus-per-task",
	"gpu-bind":       "a step's tasks see --gpus-per-task devices each, or all of the node",
	"tmp":            "use disk in a job file",
	"tres-per-task":  "use --gpus-per-task, --cpus-per-task or --mem",
	"tres-bind":      "devices cannot be bound to tasks",
	"export-file":    "use --export",
	"uid":            "a job belongs to its submitter",
	"gid":            "a job belongs to its submitter",
	"container":      "use --container-image",
	"container-id":   "use `image` in a job file: synapse-cli submit",
	"reboot?":        "nodes cannot be rebooted",
	"network":        "use `network` in a job file: synapse-cli submit",
	"batch":          "the script runs on the first of the nodes",
	"prefer":         "use --constraint",
	"segment":        "use topology in a job file",
	"oom-kill-step":  "a task that exceeds its memory ends its gang",
	"burst-buffer":   "burst buffers are not supported",
}

// notSupported is the text of the refusal of an option with every value.
const notSupported = "is not supported"

func never(why string) setter {
	return func(*Batch, string) error { return refuse(why, notSupported) }
}

// common returns the setter of an option that synapse-submit also has.
func common(set sbatch.Setter[sbatch.Plain]) setter {
	return func(b *Batch, value string) error { return set(&b.Plain, value) }
}

func text(to func(*Batch) *string) setter { return sbatch.Text(to) }
func yes(to func(*Batch) *bool) setter    { return sbatch.Yes(to) }

func exactly(only, why string) setter {
	return func(_ *Batch, value string) error {
		if !strings.EqualFold(value, only) {
			return refuse(why, "%s is not supported", value)
		}
		return nil
	}
}

// setConstraint accepts KEY=VALUE, several joined by &, or a GPU type.
func setConstraint(b *Batch, value string) error {
	if strings.ContainsAny(value, "|*()[]!") {
		return refuse("combine labels with &", "%s: only & is supported", value)
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(value, ",", "&"), "&") {
		key, is, has := strings.Cut(part, "=")
		switch {
		case has && key != "" && is != "":
			b.selector = append(b.selector, &messages.Label{Key: key, Value: is})
		case part == "" || has || b.GPUType != "" && b.GPUType != strings.ToLower(part):
			return refuse("write KEY=VALUE, or a GPU type", "%s", value)
		default:
			b.GPUType = strings.ToLower(part)
		}
	}
	return nil
}

func hosts(to func(*Batch) *[]string) setter {
	return func(b *Batch, value string) (err error) {
		*to(b), err = Hostnames(value)
		return err
	}
}

func setExclusive(b *Batch, value string) error {
	if value != "node" {
		return refuse("use --exclusive without a value", "%s: only complete nodes can be exclusive", value)
	}
	b.Exclusive = true
	return nil
}

// setSignal accepts [B:]SIGNAL[@seconds].
func setSignal(b *Batch, value string) error {
	name := strings.TrimPrefix(value, "B:")
	if strings.HasPrefix(name, "R:") {
		return refuse("", "%s: reservations are not supported", value)
	}
	name, seconds, timed := strings.Cut(name, "@")
	if !timed {
		seconds = "60"
	}
	warn, problem := jobfile.ParseWarn(name + "@" + seconds + "s")
	if problem != nil {
		return refuse(problem.Hint, "%s", problem.Text)
	}
	b.warn = warn
	return nil
}

// setSwitches accepts one switch, which means a rack.
func setSwitches(b *Batch, value string) error {
	n, patience, waits := strings.Cut(value, "@")
	if n != "1" {
		return refuse("use topology in a job file", "%s: only one switch (a rack) is supported", value)
	}
	if b.topology = (&messages.TopologySpec{Required: "rack"}); waits {
		ms, err := sbatch.ParseTime(patience)
		if err != nil {
			return err
		}
		b.topology = &messages.TopologySpec{Preferred: "rack", PatienceMs: ms}
	}
	return nil
}

func setArray(b *Batch, value string) error {
	a, problem := jobfile.ParseArray(value)
	if problem != nil {
		return refuse(problem.Hint, "%s", problem.Text)
	}
	b.array = a
	return nil
}
