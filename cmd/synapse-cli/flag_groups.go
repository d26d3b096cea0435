package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file defines the groups of flags in the help of `submit` and `run`.

// flagGroup lists flags that the help shows together, in this order.
type flagGroup struct {
	title string
	flags []string
}

// flagGroups is in the order of the help. A command shows the flags of a group that it has.
var flagGroups = []flagGroup{
	{"Resources", []string{"gpu", "gpu-type", "cpu", "mem", "replicas", "split", "shm", "disk"}},
	{"Placement", []string{"required", "preferred", "patience", "node-selector", "nodelist", "exclude", "queue",
		"priority", "preemptible", "allow-infeasible"}},
	{"Tasks", []string{"name", "label", "image", "user", "workdir", "env", "network", "launcher", "array"}},
	{"Time and restarts", []string{"after", "begin", "deadline", "time-limit", "restarts", "in-place", "spares",
		"backoff",
		"checkpoint", "hang", "warn", "stop-signal", "grace", "prepare-timeout", "lost-grace", "stop-when-lost"}},
	{"Files and secrets", []string{"file", "from", "request-id", "mount", "secret", "secret-env"}},
	{"Output", []string{"hold", "wait", "attach", "pty", "keep", "dry-run", "output", "parsable", "quiet"}},
	{"Slurm-like flags", []string{"nodes", "gpus", "gpus-per-task", "cpus-per-task"}},
}

// groupFlags makes the usage of a command show its flags in groups. Flags without a group come last.
func groupFlags(c *cobra.Command) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		text := "Usage:\n  " + c.UseLine() + "\n\nExamples:\n" + c.Example + "\n"
		other := pflag.NewFlagSet("", pflag.ContinueOnError)
		other.AddFlagSet(c.LocalFlags())
		for _, group := range flagGroups {
			shown := pflag.NewFlagSet("", pflag.ContinueOnError)
			shown.SortFlags = false
			for _, name := range group.flags {
				if flag := c.LocalFlags().Lookup(name); flag != nil {
					shown.AddFlag(flag)
				}
			}
			text += "\n" + group.title + ":\n" + shown.FlagUsages()
			other = without(other, shown)
		}
		text += "\nOther flags:\n" + other.FlagUsages() + "\nGlobal Flags:\n" + c.InheritedFlags().FlagUsages()
		_, err := fmt.Fprint(c.OutOrStderr(), text)
		return err
	})
}

// without returns the flags of one set that another set lacks.
func without(all, shown *pflag.FlagSet) *pflag.FlagSet {
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.VisitAll(func(flag *pflag.Flag) {
		if shown.Lookup(flag.Name) == nil {
			rest.AddFlag(flag)
		}
	})
	return rest
}
