package slurmcmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
)

// This file lists the options of the listings that need no code: those that describe the default, those that have no
// effect here, and those that are refused. It also prints what a command does with each of its options.

// treatment lists options of a command. The letter of an option is after a comma. The name of an option with a value
// ends with =.
type treatment struct {
	same    string            // the command always does what they request
	warned  string            // without an effect, with a warning
	refused map[string]string // by option: the reason
}

// Reasons that several commands share.
const (
	useJSON        = "use --json"
	noReservations = "reservations are not supported"
	noLicenses     = "licenses are not supported"
	noSteps        = "steps are not stored"
	usePattern     = "filter the rows with another program"
)

// treatments maps the commands to their options without code.
var treatments = map[string]treatment{
	"squeue": {
		same:   "all,a noconvert federation local sibling verbose,v hide array-unique only-job-state priority,P",
		warned: "expand-patterns",
		refused: map[string]string{"licenses=,L": noLicenses, "reservation=,R": noReservations, "steps=,s": noSteps,
			"yaml": useJSON},
	},
	"sinfo": {
		same: "all,a noconvert federation local verbose,v hide future,F", warned: "exact,e sort=,S",
		refused: map[string]string{"reservation,T": noReservations, "yaml": useJSON},
	},
	"sacct": {
		same: "allocations,X allclusters,L noconvert federation local duplicates,D verbose,v whole-hetjob= use-local-uid " +
			"array",
		warned: "expand-patterns units=",
		refused: map[string]string{
			"batch-script,B": "`synapse-cli get job JOB -o yaml` shows the script",
			"env-vars":       "`synapse-cli get job JOB -o yaml` shows the environment",
			"completion,c":   "there is one history of jobs", "file=,f": "there is one history of jobs",
			"constraints=,C": usePattern, "flags=,F": usePattern, "gid=,g": usePattern, "group=": usePattern,
			"nnodes=,i": usePattern, "ncpus=,I": usePattern, "reason=,R": usePattern,
			"timelimit-max=,K": usePattern, "timelimit-min=,k": usePattern, "associations=,x": "use --accounts",
			"truncate,T": "the times of a job are always complete", "yaml": useJSON,
		},
	},
	"scancel": {
		same: "quiet,Q verbose,v ctld hurry,H cron,c sibling=", warned: "admin-comment=",
		refused: map[string]string{
			"interactive,i":  "list the jobs first with the same options of squeue",
			"reservation=,R": noReservations,
		},
	},
	"scontrol": {
		same:    "all,a federation local quiet,Q verbose,v future,F hide sibling",
		warned:  "",
		refused: map[string]string{"uid=,u": "a change belongs to the user who requests it", "yaml": useJSON},
	},
	"sacctmgr": {
		same:    "associations,s immediate,i quiet,Q verbose,v readonly,r",
		refused: map[string]string{"json": "use --parsable2", "yaml": "use --parsable2"},
	},
	"sshare": {
		same: "verbose,v", warned: "long,l partition,m",
		refused: map[string]string{"json": "use --parsable2", "yaml": "use --parsable2"},
	},
	"seff": {same: "debug,d"},
	"sprio": {
		same: "federation local sibling verbose,v noconvert", warned: "sort=,S",
		refused: map[string]string{
			"norm,n":    "a priority is one number, without weighted factors",
			"weights,w": "a priority is one number, without weighted factors: `synapse-cli explain JOB` shows the jobs ahead",
		},
	},
}

// inert is an option without code.
type inert struct{ result, why string }

func (inert) String() string   { return "" }
func (inert) Set(string) error { return nil }
func (inert) Type() string     { return "value" }

// clusters is the option --clusters. There is one cluster, so only another name has no effect.
type clusters struct{ other string }

func (*clusters) String() string { return "" }
func (*clusters) Type() string   { return "names" }

func (c *clusters) Set(names string) error {
	for name := range strings.SplitSeq(names, ",") {
		if name != "all" && name != slurm.ClusterName && name != "" {
			c.other = name
		}
	}
	return nil
}

// bare marks an option without a value. It is the value that the flag library then sets.
const bare = "yes"

// treat adds the options of a command that need no code.
func treat(f *pflag.FlagSet, command string) {
	add := func(word string, value pflag.Value) {
		name, letter, _ := strings.Cut(word, ",")
		name, valued := strings.CutSuffix(name, "=")
		if flag := f.VarPF(value, name, letter, ""); !valued {
			flag.NoOptDefVal = bare
		}
	}
	t := treatments[command]
	for word := range strings.FieldsSeq(t.same) {
		add(word, inert{slurm.Honored, ""})
	}
	for word := range strings.FieldsSeq(t.warned) {
		add(word, inert{slurm.Warned, ""})
	}
	for word, why := range t.refused { //order: each option is independent
		add(word, inert{slurm.Refused, why})
	}
	if command == "scontrol" {
		add("cluster=", &clusters{})
	}
	add("clusters=,M", &clusters{})
	add("help", inert{slurm.Honored, ""})
	add("usage", inert{slurm.Honored, ""})
	add("version,V", inert{slurm.Honored, ""})
}

// check refuses unsupported options, and prints a warning for each option without an effect. It runs before all other
// output.
func (a *CLI) check(f *pflag.FlagSet) (err error) {
	f.Visit(func(flag *pflag.Flag) {
		switch value := flag.Value.(type) {
		case inert:
			if value.result == slurm.Refused && err == nil {
				err = &slurm.Refusal{Option: "--" + flag.Name, Text: "is not supported", Hint: value.why}
			}
		}
	})
	if err != nil {
		return err
	}
	f.Visit(func(flag *pflag.Flag) {
		switch value := flag.Value.(type) {
		case inert:
			if value.result == slurm.Warned {
				a.Say("%s: warning: --%s has no effect on this cluster", a.Name, flag.Name)
			}
		case *clusters:
			if value.other != "" {
				a.Say("%s: warning: --%s: there is no cluster %s, this cluster is shown", a.Name, flag.Name, value.other)
			}
		}
	})
	return nil
}

// treated returns the options of a flag set.
func treated(f *pflag.FlagSet) (all []slurm.Treated) {
	f.VisitAll(func(flag *pflag.Flag) {
		t := slurm.Treated{Long: flag.Name, Short: flag.Shorthand, Result: slurm.Honored}
		if value, is := flag.Value.(inert); is {
			t.Result, t.Why = value.result, value.why
		}
		all = append(all, t)
	})
	slurm.SortTreated(all)
	return all
}

// errAnswered ends a command whose output is complete.
var errAnswered = errors.New("")

// describe prints the options of a command.
func (a *CLI) describe(all []slurm.Treated) error {
	text := fmt.Sprintf("%s of Synapse has the options of Slurm %s:\n", a.Name, slurm.Version)
	for _, t := range all {
		text += strings.TrimRight(fmt.Sprintf("\n  %-32s %s", t.Name(), strings.TrimSuffix(t.Result+": "+t.Why, ": ")), " ")
	}
	return a.Page(text)
}

// parse parses a command line. It refuses unknown and unsupported options by name, and answers --help and --version.
func (a *CLI) parse(f *pflag.FlagSet, words []string) error {
	words, err := slurm.Whole(f, false, words)
	if err != nil {
		return err
	}
	err = f.Parse(words)
	switch {
	case errors.Is(err, pflag.ErrHelp), err == nil && (f.Changed("help") || f.Changed("usage")):
		if err = a.describe(treated(f)); err == nil {
			err = errAnswered
		}
		return err
	case err != nil:
		return exit.Hint("`"+a.Name+" --help` lists all options", "%s", strings.SplitN(err.Error(), "\n", 2)[0])
	case f.Changed("version"):
		if err = a.version(); err == nil {
			err = errAnswered
		}
		return err
	}
	return a.check(f)
}

func (a *CLI) version() error { return a.Data("slurm %s", slurm.Version) }
