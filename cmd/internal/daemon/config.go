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

// This file owns what operators see of a program's settings: whether they are good, what is in force, and what a file
// that was changed does to a program that runs.

// Reading is one reading of a program's settings, into values of its own.
type Reading struct {
	Flags    func(*pflag.FlagSet) // defines them
	Check    func() error
	Sections []settings.Section
	// Show is what may be shown of a setting; nil: all of it.
	Show func(name, text string) string
}

// values are the settings in force, as far as they may be shown.
func (r Reading) values(flags *pflag.FlagSet, from settings.Origins) []settings.Value {
	all := settings.Values(flags, r.Sections, from)
	for i := range all {
		if r.Show != nil {
			all[i].Text = r.Show(all[i].Name, all[i].Text)
		}
	}
	return all
}

// ConfigCommand is `config` of a program, whose settings each reading reads for itself.
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

// configVerb makes one of the commands. It knows the program's own flags, so that it can be given its command line.
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

// read reads the settings again, from the same command line and environment.
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

// Reloading is what a program does at SIGHUP.
type Reloading struct {
	Prefix string
	Fresh  func() Reading
	Log    func(format string, args ...any)
	// Live are the settings that can change while the program runs, with what makes them do so.
	Live map[string]func(text string)
	// Also is done each time, whatever was changed; nil: nothing is.
	Also func()
}

// Watch reads the settings again at each SIGHUP; what is returned ends it. A file that is wrong changes nothing.
func (r Reloading) Watch() (end func()) {
	return r.watch(os.Args[1:])
}

func (r Reloading) watch(arguments []string) (end func()) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGHUP)
	over := make(chan struct{})
	now, _ := r.Fresh().read(r.Prefix, arguments) // it was read before
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

// again reads once more and makes the changes that can be made. It answers what was read.
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
