package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/slurmcmd"
)

// This file adds Slurm's commands to this program, and the links under their names.

// door returns the settings of this run for Slurm's commands.
func (a *app) door() *slurmcmd.CLI {
	return &slurmcmd.CLI{
		Name: a.name, Version: versionOf(), Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		Terminal: isTerminal(a.stdin), Lookup: a.lookup, Variable: a.variable, Moment: moment,
		Read: func(name string) ([]byte, error) {
			_, text, err := input(name, a.stdin)
			return text, err
		},
		With: a.with, Lost: a.lost, Say: a.say, Data: a.data, Page: a.page, Tell: a.tell,
		Placed: a.placed, Inside: a.inside, Converse: a.converse, Abandon: a.abandon, Concluded: a.concluded,
	}
}

// asSlurm runs one of Slurm's commands and returns its exit code.
func (a *app) asSlurm(name string, words []string) int {
	a.name = name
	a.connection = pflag.NewFlagSet("", pflag.ContinueOnError)
	a.connectionFlags(a.connection)
	return a.door().Run(words)
}

func (a *app) slurmCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "slurm", Short: "Slurm-compatible commands: sbatch, srun, salloc, squeue, scancel, sinfo, sacct, scontrol",
		Long: "Installs Slurm-compatible commands in a folder, or runs one of them, such as `synapse-cli slurm\n" +
			"squeue`. The commands accept Slurm's options and use Slurm's output and exit codes. If an option is\n" +
			"not supported, the command fails, and the error names the option.",
		Example: "  synapse-cli slurm install bin && PATH=bin:$PATH squeue --me",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use: "install DIR", Short: "install the Slurm-compatible commands in a folder",
		Long: "Installs " +
			strings.Join(slurmcmd.Names(), ", ") +
			" in a\n" +
			"folder, as links to this program. If a file with such a name exists, it is replaced only if it is a\n" +
			"link to this program; otherwise the command reports the file. If the program synapse-submit is next to\n" +
			"this program, the links name synapse-submit, which starts faster and calls this program if needed.",
		Example: "  synapse-cli slurm install bin",
		Args:    named("folder", "install DIR", 1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.layDoors(args[0]) },
	})
	for _, name := range slurmcmd.Names() {
		c.AddCommand(&cobra.Command{
			Use: name, Short: "run " + name + " as in Slurm", Hidden: true, DisableFlagParsing: true,
			RunE: func(_ *cobra.Command, args []string) error { return exit.With(a.asSlurm(name, args)) },
		})
	}
	return c
}

// quickProgram starts faster than this program. It serves the common calls of Slurm's commands, and calls this program
// for all others.
const quickProgram = "synapse-submit"

// layDoors creates the links.
func (a *app) layDoors(dir string) error {
	if runtime.GOOS == "windows" {
		return exit.Hint("run `synapse-cli slurm squeue` instead", "slurm install is not supported on Windows")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f := exit.Failures{Tell: a.tell}
	target := self
	if quick := filepath.Join(filepath.Dir(self), quickProgram); sameFile(quick, quick) {
		target = quick
	}
	for _, name := range slurmcmd.Names() {
		path := filepath.Join(dir, name)
		err := os.Symlink(target, path)
		if was, failed := filepath.EvalSymlinks(path); errors.Is(err, os.ErrExist) && failed == nil {
			if err = nil; sameFile(was, self) && target != self {
				err = relink(target, path)
			} else if !sameFile(was, target) {
				err = &exit.Failure{Code: exit.Conflict,
					Text: path + " already exists and is not a link to this program",
					Hint: "remove it, or use another folder"}
			}
		}
		if err == nil {
			err = a.data("%s", path)
		}
		f.Note(err)
	}
	return f.First
}

// relink replaces a link of an earlier version, which lacked synapse-submit.
func relink(target, path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

func sameFile(x, y string) bool {
	one, err := os.Stat(x)
	other, failed := os.Stat(y)
	return err == nil && failed == nil && os.SameFile(one, other)
}
