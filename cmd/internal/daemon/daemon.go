// Package daemon contains the common code of Synapse's long-running commands: reading the settings, and ending the
// process.
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

// These exit codes are the same in all of Synapse's commands.
const (
	exitFailure = 1
	exitUsage   = 2
)

// Usage is an error in the command line, not in the execution of the command.
type Usage struct{ Err error }

// Error returns the text of the wrapped error.
func (u Usage) Error() string { return u.Err.Error() }

// Unwrap returns the wrapped error.
func (u Usage) Unwrap() error { return u.Err }

// Main runs a command and ends the process. It prints an error as one line.
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

// Command completes a command that has only flags. The prefix forms the names of environment variables:
// SYNAPSE_NODE_ and join form SYNAPSE_NODE_JOIN. An error of check is a usage error. run does the work. sections
// exist only in the file.
func Command(c *cobra.Command, prefix string, check, run func() error, sections ...settings.Section) *cobra.Command {
	return commandOf(c, prefix, new(settings.Origins), check, run, sections...)
}

// commandOf is Command for a command that needs the sources of its settings before it runs.
func commandOf(
	c *cobra.Command, prefix string, from *settings.Origins, check, run func() error, sections ...settings.Section,
) *cobra.Command {
	c.Args, c.Version = cobra.NoArgs, Version()
	c.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	c.SilenceErrors, c.SilenceUsage = true, true
	settings.Flag(c.Flags())
	c.Long += "\n\nEach flag can also be set by an environment variable, such as " +
		settings.Twin(prefix, "data-dir") + " for\n--data-dir, or by the key with the flag's name in the file of --config."
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

// CheckLogFormat refuses an unknown log format. An empty format means text.
func CheckLogFormat(format string) error {
	if format != "" && !slices.Contains(host.LogFormats, format) {
		return fmt.Errorf("--log-format %q: must be one of %s", format, strings.Join(host.LogFormats, ", "))
	}
	return nil
}

// Version returns the version of the module from which the program was built.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
