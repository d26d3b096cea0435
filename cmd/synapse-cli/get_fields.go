package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
)

// This file owns flags of `get` that users know from kubectl.

// fieldFlags adds the flags that kubectl's users expect: --sort-by, and --selector as another name of --label.
func (a *app) fieldFlags(c *cobra.Command, l *listing) {
	f := c.Flags()
	f.StringVar(&l.sortBy, "sort-by", "", "sort by the field at this `path` of -o json, such as .metadata.name")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "selector" {
			name = "label"
		}
		return pflag.NormalizedName(name)
	})
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if l.sortBy == "" {
			return run(c, args)
		}
		if l.watch || f.Changed("sort") || len(args) > 0 {
			return exit.Usage("--sort-by cannot be combined with --sort, -w or names")
		}
		if err := show.CheckPath(l.sortBy); err != nil {
			return exit.Usage("--sort-by: %v", err)
		}
		return run(c, args)
	}
}

// sortJobs sorts jobs by the field of --sort-by, if it is set.
func (l *listing) sortJobs(jobs []*messages.JobStatus, nowMs int64) error {
	if l.sortBy == "" {
		return nil
	}
	return show.SortJobsBy(jobs, l.sortBy, nowMs)
}

// sortNodes sorts nodes by the field of --sort-by, if it is set.
func (l *listing) sortNodes(nodes []*messages.NodeStatus) error {
	if l.sortBy == "" {
		return nil
	}
	return show.SortNodesBy(nodes, l.sortBy)
}
