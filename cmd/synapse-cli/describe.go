package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/client"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/jobfile"
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
	var chosen []string
	job := a.objectFlag(&cobra.Command{
		Use: "job JOB", Aliases: []string{"jobs"}, Short: "describe a job: its ranks, where they are, how they ended", Args: oneJob(&chosen),
		ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				if len(chosen) > 0 {
					status, err := a.oneJob(ctx, c, nil, chosen)
					if err != nil {
						return err
					}
					args = []string{status.GetRecord().GetId()}
				}
				status, attempts, err := c.Attempts(ctx, args[0])
				if err != nil {
					return err
				}
				a.fetched(ctx, c, status)
				if a.style.Format != "" {
					return show.JobWhole(a.stdout, a.style, status, attempts)
				}
				return show.DescribeJob(a.stdout, a.style, status, attempts)
			})
		},
	})
	labelFlag(job, &chosen, "the job that lives")
	c.AddCommand(job, a.objectFlag(&cobra.Command{
		Use: "node NODE", Aliases: []string{"nodes"}, Short: "describe a machine: what it has, and who uses it", Args: named("machine", "NODE", 1),
		ValidArgsFunction: a.completeNodes,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				status, err := c.Node(ctx, args[0])
				if err != nil {
					return err
				}
				if a.style.Format != "" {
					return show.Node(a.stdout, a.style, status)
				}
				return show.DescribeNode(a.stdout, a.style, status)
			})
		},
	}))
	return c
}

// explanation is why a job is where it is, for programs.
type explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Job        string `json:"job"`
	Phase      string `json:"phase"`
	Text       string `json:"text"`
}

// objectFlag adds -o for what is shown as one object, or as one for each change; also are other words that it takes.
func (a *app) objectFlag(c *cobra.Command, also ...string) *cobra.Command {
	words := append(also, "json", "yaml")
	c.Flags().VarP(objectFormat{&a.style.Format, words}, "output", "o", "how to show it: "+strings.Join(words, ", "))
	a.completeFlag(c, "output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// objectFormat is one of a few words.
type objectFormat struct {
	to    *string
	words []string
}

func (f objectFormat) Set(text string) error {
	if !slices.Contains(f.words, text) {
		return &jobfile.Problem{Text: strconv.Quote(text) + " is not known", Hint: "use " + strings.Join(f.words, ", ")}
	}
	*f.to = text
	return nil
}

func (f objectFormat) String() string { return "" }
func (objectFormat) Type() string     { return "format" }

func (a *app) explainCommand() *cobra.Command {
	var chosen []string
	c := a.objectFlag(&cobra.Command{
		Use:               "explain JOB",
		Short:             "say why a job is where it is: what it waits for, and the way out",
		Args:              oneJob(&chosen),
		ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withJob(args, chosen, func(ctx context.Context, c *client.Client, status *messages.JobStatus) error {
				id := status.GetRecord().GetId()
				reply, err := c.ExplainJob(ctx, &messages.ExplainJob{Job: id})
				if err != nil {
					return err
				}
				if a.style.Format != "" {
					return show.Object(a.stdout, a.style.Format, explanation{"synapse/v1", "Explanation", id, status.GetPhase(), reply.GetText()})
				}
				return a.data("%s", reply.GetText())
			})
		},
	})
	labelFlag(c, &chosen, "the job that lives")
	return c
}
