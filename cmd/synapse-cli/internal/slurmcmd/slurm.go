// Package slurmcmd implements Slurm's commands under their own names, with their exit codes and error formats.
// Package slurm defines their options and fields.
package slurmcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/pflag"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// CLI holds what Slurm's commands share with all other commands: the streams and the connection of this run, and
// jobs that hold resources for a local command.
type CLI struct {
	Name           string // the command's name
	Version        string
	Stdin          io.Reader
	Stdout, Stderr io.Writer // unquoted, for the output of jobs
	Terminal       bool      // stdin is a terminal
	Lookup         func(name string) (string, bool)
	Variable       func(name string) string
	Read           func(name string) ([]byte, error) // a file, or stdin for -
	Moment         func(flag, text string, nowMs int64) (int64, error)

	With func(func(context.Context, *client.Client) error) error
	Lost func(error)                // the scheduler is unreachable
	Say  func(string, ...any)       // prints for the user
	Data func(string, ...any) error // prints a line of the output
	Page func(string) error
	Tell func(error) // reports one of several errors

	Placed    func(waiting context.Context, c *client.Client, id string, keep bool, tell func(why string)) error
	Inside    func(ctx context.Context, c *client.Client, first *api.ExecIn, stdin, terminal, each bool) error
	Converse  func(ctx context.Context, c *client.Client, first *api.ExecIn, stdin, terminal bool) error
	Abandon   func(c *client.Client, id, why string)
	Concluded func(ctx context.Context, c *client.Client, id string, ended error) error
}

// programs maps the names to the commands. Inside an sbatch script, another srun is used, which needs nothing on
// the node.
var programs = map[string]func(a *CLI, words []string) error{
	"sbatch": (*CLI).sbatch, "srun": (*CLI).srun, "salloc": (*CLI).salloc, "scancel": (*CLI).scancel,
	"squeue": (*CLI).squeue, "sinfo": (*CLI).sinfo, "sacct": (*CLI).sacct, "scontrol": (*CLI).scontrol,
	"sacctmgr": (*CLI).sacctmgr, "sshare": (*CLI).sshare, "seff": (*CLI).seff, "sprio": (*CLI).sprio,
}

// Names returns the sorted names of the commands.
func Names() []string { return slices.Sorted(maps.Keys(programs)) }

// Run runs one of the commands and returns its exit code.
func (a *CLI) Run(words []string) int {
	var err error
	switch {
	case len(words) == 1 && (words[0] == "--version" || words[0] == "-V"):
		err = a.version()
	case len(words) == 1 && (words[0] == "--help" || words[0] == "--usage") && len(slurm.Treatments(a.Name)) > 0:
		err = a.describe(slurm.Treatments(a.Name))
	default:
		err = programs[a.Name](a, words)
	}
	if err == nil || err == errAnswered || exit.Closed(err) {
		return exit.OK
	}
	if text, hint := slurmWords(err); text != "" {
		a.Say("%s: error: %s", a.Name, text)
		if hint != "" {
			a.Say("%s: error: %s", a.Name, hint)
		}
	}
	if f := (*exit.Failure)(nil); errors.As(err, &f) && f.Text == "" {
		return f.Code
	}
	if r := (*slurm.Refusal)(nil); client.Refused(err) || errors.As(err, &r) && r.Scope {
		return exit.Misuse
	}
	return exit.Failed
}

func slurmWords(err error) (text, hint string) {
	if r := (*slurm.Refusal)(nil); errors.As(err, &r) {
		return err.Error(), ""
	}
	return exit.Words(err)
}

// slurmFlags returns the flag set of a command.
func slurmFlags(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.Usage = func() {}
	f.SortFlags = false
	treat(f, name)
	return f
}

// warn prints the options without an effect. It runs before all other output, because programs read the last line.
func (a *CLI) warn(b *slurm.Batch) {
	for _, warning := range b.Warnings() {
		a.Say("%s: warning: %s", a.Name, warning)
	}
}

// variables sets the options that are missing on the command line from the environment.
func (a *CLI) variables(f *pflag.FlagSet, options map[string]string) error {
	for variable, option := range options { //order: each option is independent
		value := a.Variable(variable)
		if value == "" || f.Changed(option) {
			continue
		}
		if f.Lookup(option).NoOptDefVal != "" {
			value = "true" // a switch is on for any value of its variable
		}
		if err := f.Set(option, value); err != nil {
			return exit.Usage("%s: %s", variable, err)
		}
	}
	return nil
}

// eachJob changes each named job, and continues after a failure.
func (a *CLI) eachJob(ctx context.Context, c *client.Client, words []string, do func(*messages.JobStatus) error) error {
	return query.Each(ctx, c, words, a.Tell, do)
}

// me returns the owner of jobs that are submitted with this connection.
func (a *CLI) me(ctx context.Context, c *client.Client) (string, error) {
	who, err := c.WhoAmI(ctx, &api.WhoAmI{})
	return who.GetName(), err
}

// delimit sets a text between columns for --parsable and --parsable2. closed adds one after the last column.
// Otherwise columns are separated by spaces.
func delimit[T any](columns []slurm.Column[T], between string, closed, parsed2 bool) {
	for i := range columns {
		columns[i].After = " "
		if closed || parsed2 {
			columns[i].Width, columns[i].Cut, columns[i].After = 0, false, between
		}
	}
	if parsed2 && len(columns) > 0 {
		columns[len(columns)-1].After = ""
	}
}

// add adds the options of a table that synapse-submit shares.
func add[B any](f *pflag.FlagSet, to *B, options []sbatch.Option[B]) {
	for _, o := range options {
		f.VarPF(option[B]{to, o}, o.Long, o.Short, "").NoOptDefVal = o.Bare
	}
}

// option is an option of a table.
type option[B any] struct {
	to *B
	of sbatch.Option[B]
}

func (option[B]) String() string           { return "" }
func (option[B]) Type() string             { return "value" }
func (o option[B]) Set(value string) error { return o.of.Set(o.to, value) }

// refusedWord refuses an argument that a command does not accept.
func refusedWord(word string) error {
	return exit.Hint("see docs/reference/slurm.md for supported options", "%s", fmt.Sprintf("%q is not supported",
		word))
}
