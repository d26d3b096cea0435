package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/client"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/scope"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/slurm"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns Slurm's front door: this program under Slurm's names, with their exit codes and their way to say what
// is wrong. What a name does is in the files beside it.

// door is a program of Slurm's.
type door func(a *app, words []string) error

// doors are those that are laid. A script of sbatch finds an srun of its own, which needs nothing of its machine.
var doors = map[string]door{
	"sbatch": (*app).sbatch, "srun": (*app).srun, "salloc": (*app).salloc, "scancel": (*app).scancel,
	"squeue": (*app).squeue, "sinfo": (*app).sinfo, "sacct": (*app).sacct, "scontrol": (*app).scontrol,
}

func doorNames() []string { return slices.Sorted(maps.Keys(doors)) }

// asSlurm runs as one of Slurm's programs, and ends as that would.
func (a *app) asSlurm(name string, words []string) int {
	a.name = name
	a.connection = pflag.NewFlagSet("", pflag.ContinueOnError)
	a.connectionFlags(a.connection)
	var err error
	switch {
	case len(words) == 1 && (words[0] == "--version" || words[0] == "-V"):
		err = a.data("synapse %s", versionOf())
	case len(words) == 1 && (words[0] == "--help" || words[0] == "--usage"):
		err = a.data("%s of Synapse: it takes what docs/slurm.md says, and refuses all else by name", name)
	default:
		err = doors[name](a, words)
	}
	if err == nil || closedPipe(err) {
		return exitOK
	}
	if text, hint := slurmWords(err); text != "" {
		a.say("%s: error: %s", name, text)
		if hint != "" {
			a.say("%s: error: %s", name, hint)
		}
	}
	if f := (*failure)(nil); errors.As(err, &f) && f.text == "" {
		return f.code
	}
	if r := (*slurm.Refusal)(nil); client.Refused(err) || errors.As(err, &r) && r.Scope {
		return exitUsage
	}
	return exitFailure
}

func slurmWords(err error) (text, hint string) {
	if r := (*slurm.Refusal)(nil); errors.As(err, &r) {
		return err.Error(), ""
	}
	return words(err)
}

func (a *app) slurmCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "slurm", Short: "be Slurm's commands: sbatch, srun, salloc, squeue, scancel, sinfo, sacct, scontrol",
		Long: "Lays Slurm's commands into a folder, or runs one of them as `synapse-cli slurm squeue`. They take Slurm's\n" +
			"options, show Slurm's words and end with Slurm's codes. What cannot be honoured is refused by its name.",
		Example: "  synapse-cli slurm install bin && PATH=bin:$PATH squeue --me",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use: "install DIR", Short: "lay Slurm's commands into a folder",
		Long: "Lays " + strings.Join(doorNames(), ", ") + " into a folder, as links to this program. A file that is\n" +
			"there already and leads elsewhere is left alone, and said.",
		Example: "  synapse-cli slurm install bin",
		Args:    named("folder", "install DIR", 1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.layDoors(args[0]) },
	})
	for _, name := range doorNames() {
		c.AddCommand(&cobra.Command{
			Use: name, Short: "as " + name + " of Slurm", Hidden: true, DisableFlagParsing: true,
			RunE: func(_ *cobra.Command, args []string) error { return quietly(a.asSlurm(name, args)) },
		})
	}
	return c
}

// layDoors makes the links.
func (a *app) layDoors(dir string) error {
	if runtime.GOOS == "windows" {
		return usageHint("`synapse-cli slurm squeue` is the same", "there are no such links on Windows")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f := failures{a: a}
	for _, name := range doorNames() {
		path := filepath.Join(dir, name)
		err := os.Symlink(self, path)
		if was, failed := filepath.EvalSymlinks(path); errors.Is(err, os.ErrExist) && failed == nil {
			if err = nil; !sameFile(was, self) {
				err = &failure{code: exitConflict, text: path + " is there already, and leads elsewhere",
					hint: "remove it, or name another folder"}
			}
		}
		if err == nil {
			err = a.data("%s", path)
		}
		f.note(err)
	}
	return f.first
}

func sameFile(x, y string) bool {
	one, err := os.Stat(x)
	other, failed := os.Stat(y)
	return err == nil && failed == nil && os.SameFile(one, other)
}

// slurmFlags are the options of one of Slurm's programs.
func slurmFlags(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.Usage = func() {}
	f.SortFlags = false
	return f
}

// parseSlurm reads a command line; what is not known is refused by its name.
func parseSlurm(f *pflag.FlagSet, words []string) error {
	if err := f.Parse(words); err != nil {
		return usageHint("docs/slurm.md has what is known", "%s", strings.SplitN(err.Error(), "\n", 2)[0])
	}
	return nil
}

// invalidJob is what Slurm says of an id that it does not know.
func invalidJob(word string) error {
	return &client.Error{Code: messages.Code_CODE_NOT_FOUND, Text: "Invalid job id specified: " + word}
}

// numbering finds jobs by what Slurm's users call them: a number, or what is a name of it here. Two jobs with one
// number are refused, with their ids.
func numbering(c *client.Client) client.Find {
	return func(ctx context.Context, word string) (*messages.JobStatus, error) {
		if word == "" || strings.Trim(word, "0123456789") != "" {
			return known(word)(c.Named(ctx, word))
		}
		for _, elements := range []bool{false, true} {
			all, err := c.Jobs(ctx, &messages.ListJobs{Elements: elements})
			if err != nil {
				return nil, err
			}
			var found []string
			for _, j := range all {
				if messages.NumericID(j.GetRecord().GetId()) == word {
					found = append(found, j.GetRecord().GetId())
				}
			}
			switch {
			case len(found) > 1:
				return nil, &client.Error{Code: messages.Code_CODE_CONFLICT, Hint: "give one of these",
					Text: word + " is the number of " + strings.Join(found, " and ")}
			case len(found) == 1:
				return known(word)(c.Named(ctx, found[0]))
			}
		}
		return nil, invalidJob(word)
	}
}

// known says in Slurm's words that there is no such job.
func known(word string) func(*messages.JobStatus, error) (*messages.JobStatus, error) {
	return func(j *messages.JobStatus, err error) (*messages.JobStatus, error) {
		if err != nil && codeOf(err) == exitNotFound {
			return nil, invalidJob(word)
		}
		return j, err
	}
}

// eachJob does something to each job that is named; one that fails does not stop the others. All of them are found
// first, so that a refused scope changes nothing.
func (a *app) eachJob(ctx context.Context, c *client.Client, words []string, do func(*messages.JobStatus) error) error {
	var parts []string
	for _, word := range words {
		parts = append(parts, scope.Split(word, ",")...)
	}
	f := failures{a: a}
	all, err := a.scoped(ctx, c, parts, numbering(c), &f)
	if err != nil {
		return err
	}
	for _, j := range all {
		f.note(do(j))
	}
	return f.first
}

// me is by what name jobs are submitted from here.
func (a *app) me(ctx context.Context, c *client.Client) (string, error) {
	who, err := c.WhoAmI(ctx, &api.WhoAmI{})
	return who.GetName(), err
}

// listed is a list between commas; empty: all.
func listed(text, word string) bool {
	return text == "" || slices.Contains(strings.Split(text, ","), word)
}

// object writes JSON as Slurm does.
func (a *app) object(o any) error {
	text, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	return a.page(string(text))
}

// table writes the lines of a format, with its heads.
func table[T any](a *app, heads bool, before string, columns []slurm.Column[T], rows []T) error {
	if heads {
		if err := a.data("%s", strings.TrimRight(slurm.Line(before, columns, func(c slurm.Column[T]) string {
			return c.Name
		}), " ")); err != nil {
			return err
		}
	}
	for _, row := range rows {
		line := slurm.Line(before, columns, func(c slurm.Column[T]) string { return c.Of(row) })
		if err := a.data("%s", strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// refusedWord refuses an argument that a program does not take.
func refusedWord(word string) error {
	return usageHint("docs/slurm.md has what is known", "%s", fmt.Sprintf("%q cannot be honoured here", word))
}
