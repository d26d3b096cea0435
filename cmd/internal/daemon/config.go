package daemon

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/settings"
)

// This file validates and shows a program's settings, and applies a changed file to a running program.

// Reading is one reading of a program's settings into separate variables.
type Reading struct {
	Flags    func(*pflag.FlagSet) // defines the flags
	Check    func() error
	Sections []settings.Section
	// Show returns the part of a setting that may be shown; nil: all of it.
	Show func(name, text string) string
}

// values returns the effective settings, without their secrets.
func (r Reading) values(flags *pflag.FlagSet, from settings.Origins) []settings.Value {
	all := settings.Values(flags, r.Sections, from)
	for i := range all {
		if r.Show != nil {
			all[i].Text = r.Show(all[i].Name, all[i].Text)
		}
	}
	return all
}

// ConfigCommand returns the command `config` of a program. fresh must return a new Reading each time.
func ConfigCommand(prefix string, fresh func() Reading) *cobra.Command {
	config := &cobra.Command{
		Use: "config", Short: "check or show the settings", Args: cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return Usage{fmt.Errorf("subcommand is missing: use %s check or %s show", c.CommandPath(), c.CommandPath())}
		},
	}
	config.AddCommand(
		configVerb(prefix, fresh(), &cobra.Command{
			Use: "check", Short: "check whether the program would start with these settings",
			Long: "Reads the settings in the same way as the program and reports every error with line and column.\n" +
				"The command starts nothing and does not affect a running program.",
			Example: "  " + programOf(prefix) + " config check --config /etc/synapse/" + fileOf(prefix),
		}, func(out io.Writer, _ []settings.Value) { fmt.Fprintln(out, "settings are valid") }),
		configVerb(prefix, fresh(), &cobra.Command{
			Use: "show", Short: "show the effective settings and their sources",
			Long: "Shows the effective settings in the form of a settings file, with the source of each value: the\n" +
				"command line, the environment, the file or the default. Passwords are left out.",
			Example: "  " + programOf(prefix) + " config show --config /etc/synapse/" + fileOf(prefix),
		}, func(out io.Writer, all []settings.Value) { fmt.Fprint(out, settings.Show(all)) }),
	)
	return config
}

func programOf(prefix string) string {
	if prefix == "SYNAPSE_NODE_" {
		return "synapse-node"
	}
	return "synapse-scheduler"
}

func fileOf(prefix string) string { return programOf(prefix)[len("synapse-"):] + ".yaml" }

// configVerb returns a subcommand. It accepts the program's own flags, so that an operator can pass the program's
// command line.
func configVerb(prefix string, r Reading, c *cobra.Command, tell func(io.Writer, []settings.Value)) *cobra.Command {
	r.Flags(c.Flags())
	var from settings.Origins
	run := func() error {
		tell(c.OutOrStdout(), r.values(c.Flags(), from))
		return nil
	}
	commandOf(c, prefix, &from, r.Check, run, r.Sections...)
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "config" })
	return c
}

// read reads the settings again from the same command line and environment.
func (r Reading) read(prefix string, arguments []string) ([]settings.Value, error) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	r.Flags(flags)
	settings.Flag(flags)
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	from, err := settings.Apply(flags, prefix, os.LookupEnv, r.Sections...)
	if err != nil {
		return nil, err
	}
	return r.values(flags, from), r.Check()
}

// Reloading holds the reaction of a program to SIGHUP.
type Reloading struct {
	Prefix string
	Fresh  func() Reading
	Log    func(format string, args ...any)
	// Live maps the settings that can change at run time to functions that apply a new value.
	Live map[string]func(text string)
	// Also is called at each SIGHUP, even if no setting has changed; nil: nothing.
	Also func()
}

// Watch reads the settings again at each SIGHUP, until end is called. An invalid file changes nothing.
func (r Reloading) Watch() (end func()) {
	return r.watch(os.Args[1:])
}

func (r Reloading) watch(arguments []string) (end func()) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGHUP)
	over := make(chan struct{})
	now, _ := r.Fresh().read(r.Prefix, arguments) // main has already validated the settings
	go func() {
		for {
			select {
			case <-told:
				now = r.again(arguments, now)
			case <-over:
				return
			}
		}
	}()
	return func() { signal.Stop(told); close(over) }
}

// again reads the settings once more, applies the possible changes, and returns what it has read.
func (r Reloading) again(arguments []string, before []settings.Value) []settings.Value {
	if r.Also != nil {
		r.Also()
	}
	now, err := r.Fresh().read(r.Prefix, arguments)
	if err != nil {
		r.Log("SIGHUP: settings are invalid, and the previous ones stay in effect: %v", err)
		return before
	}
	changed := settings.Changed(before, now)
	if len(changed) == 0 {
		r.Log("SIGHUP: no setting has changed")
	}
	for _, v := range changed {
		if change := r.Live[v.Name]; change != nil {
			change(v.Text)
			r.Log("SIGHUP: %s is now %s (%s)", v.Name, v.Text, v.From)
		} else {
			r.Log("SIGHUP: %s is now %s (%s); restart to apply it", v.Name, v.Text, v.From)
		}
	}
	return now
}
