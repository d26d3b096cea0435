package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
)

// This file implements `describe` and `explain`.

func (a *app) describeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "describe",
		Short: "show details of a job, node or queue",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return exit.Hint("use `"+a.name+" describe job JOB`, `describe node NODE` or `describe queue QUEUE`",
				"the type to describe is missing")
		},
	}
	var chosen []string
	job := a.objectFlag(&cobra.Command{
		Use: "job JOB", Aliases: []string{"jobs"}, Short: "show details of a job: its ranks, their nodes and how they ended",
		Args:              oneJob(&chosen),
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
					return show.JobWhole(a.out, a.style, status, attempts)
				}
				return show.DescribeJob(a.out, a.style, status, attempts)
			})
		},
	})
	labelFlag(job, &chosen, "the unfinished job")
	c.AddCommand(job, a.objectFlag(&cobra.Command{
		Use: "node NODE", Aliases: []string{"nodes"}, Short: "show details of a node: its resources and the jobs on it",
		Args:              named("node", "NODE", 1),
		ValidArgsFunction: a.completeNodes,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				status, err := c.Node(ctx, args[0])
				if err != nil {
					return err
				}
				if a.style.Format != "" {
					return show.Node(a.out, a.style, status)
				}
				return show.DescribeNode(a.out, a.style, status)
			})
		},
	}), a.describeQueueCommand())
	return c
}

// objectFlag adds -o for the output of one object, or of one object per change. also lists further values.
func (a *app) objectFlag(c *cobra.Command, also ...string) *cobra.Command {
	words := append(also, "json", "yaml")
	c.Flags().VarP(objectFormat{&a.style.Format, words}, "output", "o", "output `format`: "+strings.Join(words, ", "))
	a.completeFlag(c, "output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// objectFormat is a flag whose values are a few fixed words.
type objectFormat struct {
	to    *string
	words []string
}

func (f objectFormat) Set(text string) error {
	if !slices.Contains(f.words, text) {
		return &jobfile.Problem{Text: "unknown output format " + strconv.Quote(text), Hint: "use " +
			strings.Join(f.words, ", ")}
	}
	*f.to = text
	return nil
}

func (f objectFormat) String() string { return "" }
func (objectFormat) Type() string     { return "format" }

func (a *app) explainCommand() *cobra.Command {
	var chosen []string
	var file string
	c := a.objectFlag(&cobra.Command{
		Use:   "explain [JOB | -f FILE]",
		Short: "explain why a job waits, and what would let it start",
		Long: "Explains why a job waits, with one kind of fact per row. The rows show what the job needs, which\n" +
			"jobs use these resources and until when, and which nodes are unavailable or reserved. Further rows\n" +
			"show the estimated start, the queue, limits and dependencies. The last row lists changes that would\n" +
			"let the job start now. Rows without facts are left out. The output of `-o json` has the same facts.\n" +
			"If -f is set, the command explains the job in a file without submitting it.",
		Example: "  synapse-cli explain JOB\n  synapse-cli explain -f job.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if file == "" {
				return oneJob(&chosen)(c, args)
			}
			if len(args) > 0 || len(chosen) > 0 {
				return exit.Usage("-f cannot be combined with JOB or -l")
			}
			return nil
		},
		ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			if file != "" {
				return a.explainFile(file)
			}
			return a.withJob(args, chosen, func(ctx context.Context, c *client.Client, status *messages.JobStatus) error {
				id := status.GetRecord().GetId()
				reply, err := c.ExplainJob(ctx, &messages.ExplainJob{Job: id})
				if err != nil {
					return err
				}
				name := &messages.JobName{Id: id, Name: status.GetRecord().GetSpec().Called()}
				return show.Explanation(a.out, a.style, reply, name, status.GetPhase())
			})
		},
	})
	labelFlag(c, &chosen, "the unfinished job")
	c.Flags().StringVarP(&file, "file", "f", "", "job `file` to explain without submitting it; - is standard input")
	return c
}

// submittable makes the same check as a submit. A job that could never run here passes, because it is explained.
func (a *app) submittable(ctx context.Context, c *client.Client, spec *messages.JobSpec) error {
	if err := c.Precede(ctx, spec, c.Named); err != nil {
		return err
	}
	_, err := c.DryRun(ctx, &messages.DryRun{Spec: spec.Bare(), AllowInfeasible: true})
	return err
}

// explainFile prints what each job of a file would wait for.
func (a *app) explainFile(file string) error {
	name, text, err := input(file, a.stdin)
	if err != nil {
		return err
	}
	specs, err := jobsOf(name, text)
	if err != nil {
		return err
	}
	return a.with(func(ctx context.Context, c *client.Client) error {
		f := exit.Failures{Tell: a.tell}
		for _, spec := range specs {
			if err := a.submittable(ctx, c, spec); err != nil {
				f.Note(err)
				continue
			}
			reply, err := c.ExplainJob(ctx, &messages.ExplainJob{Spec: spec.Bare()})
			if err == nil {
				err = a.apart()
			}
			if err == nil {
				err = show.Explanation(a.out, a.style, reply, &messages.JobName{Name: spec.Called()}, "")
			}
			f.Note(err)
		}
		return f.First
	})
}
