package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/client"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
)

// This file owns `describe` and `explain`.

func (a *app) describeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "describe",
		Short: "say all there is to say about a job or a machine",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usageHint("`"+a.name+" describe job JOB` or `"+a.name+" describe node NODE`", "what to describe is not said")
		},
	}
	c.AddCommand(&cobra.Command{
		Use: "job JOB", Aliases: []string{"jobs"}, Short: "describe a job: its ranks, where they are, how they ended", Args: named("job", "JOB", 1),
		ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				status, attempts, err := c.Attempts(ctx, args[0])
				if err != nil {
					return err
				}
				return show.DescribeJob(a.stdout, a.style, status, attempts)
			})
		},
	}, &cobra.Command{
		Use: "node NODE", Aliases: []string{"nodes"}, Short: "describe a machine: what it has, and who uses it", Args: named("machine", "NODE", 1),
		ValidArgsFunction: a.completeNodes,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				status, err := c.Node(ctx, args[0])
				if err != nil {
					return err
				}
				return show.DescribeNode(a.stdout, a.style, status)
			})
		},
	})
	return c
}

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "explain JOB",
		Short:             "say why a job is where it is: what it waits for, and the way out",
		Args:              named("job", "JOB", 1),
		ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				reply, err := c.ExplainJob(ctx, &messages.ExplainJob{Job: args[0]})
				if err != nil {
					return err
				}
				return a.data("%s", reply.GetText())
			})
		},
	}
}
