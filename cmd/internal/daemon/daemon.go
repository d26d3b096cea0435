// Package daemon is what Synapse's long-running commands have in common: how their flags are filled in, and how they
// end.
package daemon

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/cmd/internal/settings"
)

// The exit codes that all of Synapse's commands share.
const (
	exitFailure = 1
	exitUsage   = 2
)

// Usage is an error in the command line, not in its execution.
type Usage struct{ Err error }

// Error is what was wrong.
func (u Usage) Error() string { return u.Err.Error() }

// Unwrap returns the wrapped error.
func (u Usage) Unwrap() error { return u.Err }

// Main runs a command and ends the process: an error is one line.
func Main(c *cobra.Command) {
	err := c.Execute()
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name(), err)
	if errors.As(err, &Usage{}) {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailure)
}

// Command makes a command that has only flags. The prefix makes their names in the environment: SYNAPSE_NODE_ and join
// make SYNAPSE_NODE_JOIN. What check refuses is a usage error; run does the work. Sections are in the file only.
func Command(c *cobra.Command, prefix string, check, run func() error, sections ...settings.Section) *cobra.Command {
	return commandOf(c, prefix, new(settings.Origins), check, run, sections...)
}

// commandOf makes a command that is told where its settings came from, before it runs.
func commandOf(
	c *cobra.Command, prefix string, from *settings.Origins, check, run func() error, sections ...settings.Section,
) *cobra.Command {
	c.Args, c.Version = cobra.NoArgs, Version()
	c.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	c.SilenceErrors, c.SilenceUsage = true, true
	settings.Flag(c.Flags())
	c.Long += "\n\nEach flag can also be set by an environment variable (--data-dir: " +
		settings.Twin(prefix, "data-dir") + ") or by\nthe key with the flag's name in the --config file."
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if old, now := settings.RenamedFlag(c.Root().Name(), err); now != "" {
			return Usage{fmt.Errorf("unknown flag --%s: use --%s", old, now)}
		}
		if near := settings.MeantFlag(c.Flags(), err); near != "" {
			return Usage{fmt.Errorf("%w\ndid you mean --%s? Run `%s --help`", err, near, c.CommandPath())}
		}
		return Usage{fmt.Errorf("%w\nrun `%s --help`", err, c.CommandPath())}
	})
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		if *from, err = settings.Apply(c.Flags(), prefix, os.LookupEnv, sections...); err != nil {
			return Usage{err}
		}
		if err := check(); err != nil {
			return Usage{err}
		}
		return run()
	}
	return c
}

// TextLog is the default of the flag --log-format.
const TextLog = host.TextLog

// LogFormatHelp is the help text of the flag --log-format.
const LogFormatHelp = "log format: `text`, or json (one object per line, with structured fields)"

// CheckLogFormat refuses what is no format of a log; none is text.
func CheckLogFormat(format string) error {
	if format != "" && !slices.Contains(host.LogFormats, format) {
		return fmt.Errorf("--log-format %q: must be one of %s", format, strings.Join(host.LogFormats, ", "))
	}
	return nil
}

// Version is the version of the module that was built.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
