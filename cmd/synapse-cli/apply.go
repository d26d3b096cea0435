package main

import (
	"context"
	"regexp"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/queues"
	"github.com/yi-json/synapse/messages/spelling"
	"github.com/yi-json/synapse/policy/share"
)

// This file implements `apply` with queues, and the queues in `get` and `describe`.

func (a *app) applyCommand() *cobra.Command {
	var file string
	dryRun := ""
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "apply queues or jobs from a file",
		Long: "Applies a file of queues or a file of jobs.\n\n" +
			"A job of the file is compared with your unfinished job of the same name. If there is none, the\n" +
			"command submits the job. If both are equal, the command changes nothing. If only the priority, the\n" +
			"time limit, the earliest start or the limit of an array differs, the command updates the job. Other\n" +
			"differences are refused with code 4, and no job of the file is changed. The values of secrets are not\n" +
			"compared.\n\n" +
			"A file of queues replaces the cluster's queue configuration. The new configuration is on\n" +
			"the scheduler's disk when the command ends. Running jobs are not stopped. If the file has the key\n" +
			"`revision`, the command fails with code 4 unless this revision is the current one. `get queues -o\n" +
			"yaml` writes the current configuration with its revision. If a queue has jobs and is missing from\n" +
			"the file, the queue is closed. A closed queue accepts no new jobs and has no quota. Queued jobs of a\n" +
			"closed queue can still start.",
		Example: "  synapse-cli apply -f job.yaml\n  synapse-cli apply -f queues.yaml --dry-run\n" +
			"  synapse-cli apply -f queues.yaml\n" +
			"  synapse-cli get queues -o yaml > queues.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 || file == "" {
				return exit.Hint("run `"+a.name+" apply -f job.yaml`", "-f is missing: it names the file to apply")
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			if dryRun != "" && dryRun != dryClient && dryRun != dryServer {
				return exit.Hint("use client, server", "--dry-run %q: unknown value", dryRun)
			}
			return a.applyFile(file, dryRun != "")
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "`file` of queues or jobs; - is standard input")
	c.Flags().StringVar(&dryRun, "dry-run", "",
		"show the effect of the change without applying it; the `mode` client or server has the same result")
	c.Flags().Lookup("dry-run").NoOptDefVal = dryServer
	return c
}

// kindJob matches a file of jobs, also with mistakes.
var kindJob = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(^|[{,])\s*"?kind"?:\s*"?Job\b`)
})

// applyFile applies a file of jobs or of queues.
func (a *app) applyFile(file string, dryRun bool) error {
	name, data, err := input(file, a.stdin)
	if err != nil {
		return err
	}
	tree, err := jobfile.ParseQueues(data)
	if kindJob().Match(data) {
		specs, sources, err := jobsWithSources(name, data)
		if err != nil {
			return err
		}
		return a.with(func(ctx context.Context, c *client.Client) error {
			return a.applyJobs(ctx, c, specs, sources, dryRun)
		})
	}
	if problems, ok := err.(jobfile.Problems); ok {
		return refusedFile(name, problems)
	}
	if err != nil {
		return err
	}
	return a.with(func(ctx context.Context, c *client.Client) error { return a.apply(ctx, c, tree, dryRun) })
}

func (a *app) apply(ctx context.Context, c *client.Client, tree *share.Queues, dryRun bool) error {
	reply, err := c.ApplyQueues(ctx, &messages.ApplyQueues{
		Queues: queues.To(tree), Revision: tree.Revision, DryRun: dryRun,
	})
	if err != nil {
		return err
	}
	for _, name := range reply.GetClosed() {
		a.say("queue %s is closed: the file does not contain the queue, which still has jobs", name)
	}
	switch {
	case reply.GetUnchanged():
		return a.data("queues unchanged (revision %d)", reply.GetRevision())
	case dryRun:
		return a.data("dry run: queues would be applied (revision %d)", reply.GetRevision())
	}
	return a.data("queues applied (revision %d)", reply.GetRevision())
}

func (a *app) getQueuesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "queues",
		Aliases: []string{"queue"},
		Short:   "list queues with their quota, usage and queued jobs",
		Long: "Lists the configured queues; `-o yaml` writes them as a file for `apply`. If no queues are\n" +
			"configured, the command lists the queue names that jobs use, with the totals of these jobs.",
		Example: "  synapse-cli get queues\n  synapse-cli get queues -o yaml > queues.yaml",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.with(a.getQueues)
		},
	}
	a.listFlags(c)
	return c
}

func (a *app) getQueues(ctx context.Context, c *client.Client) error {
	reply, err := a.queues(ctx, c)
	switch {
	case err != nil:
		return err
	case reply.GetRevision() > 0:
		return show.Tree(a.out, a.style, reply)
	case len(reply.GetUsage()) == 0 && a.forPeople():
		a.say("no queue has jobs")
	}
	return show.Queues(a.out, a.style, reply.GetUsage())
}

// queues returns the queues of the cluster with their usage. Older schedulers do not return the usage. For these,
// the jobs are listed and counted here with the same function.
func (a *app) queues(ctx context.Context, c *client.Client) (*messages.GetQueuesReply, error) {
	reply, err := c.GetQueues(ctx, &messages.GetQueues{})
	if err != nil || len(reply.GetUsage()) > 0 {
		return reply, err
	}
	jobs, err := c.Jobs(ctx, &messages.ListJobs{Elements: true})
	if err != nil {
		return nil, err
	}
	u := queues.NewUsage(reply.GetQueues())
	for _, j := range jobs {
		u.Add(j)
	}
	reply.Usage = u.List()
	return reply, nil
}

func (a *app) describeQueueCommand() *cobra.Command {
	return &cobra.Command{
		Use: "queue QUEUE", Aliases: []string{"queues"}, Short: "show details of a queue: its quota and its usage",
		Args: named("queue", "QUEUE", 1), ValidArgsFunction: a.completeQueues,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				reply, err := a.queues(ctx, c)
				if err != nil {
					return err
				}
				if reply.GetRevision() == 0 {
					return &exit.Failure{
						Code: exit.NotFound, Text: "no queues are configured: jobs may use any queue name",
						Hint: "run `" + a.name + " apply -f FILE` to configure queues",
					}
				}
				names := namesOf(reply)
				if !slices.Contains(names, args[0]) {
					return &exit.Failure{
						Code: exit.NotFound, Text: "unknown queue \"" + args[0] + "\"", Hint: spelling.Meant(args[0],
							names),
					}
				}
				return show.DescribeQueue(a.out, a.style, args[0], reply)
			})
		},
	}
}

// namesOf returns the names of the configured queues and of all queues with jobs.
func namesOf(reply *messages.GetQueuesReply) (names []string) {
	for _, q := range reply.GetQueues().GetQueues() {
		names = append(names, q.GetName())
	}
	for _, u := range reply.GetUsage() {
		if u.GetQueue() != "" && !slices.Contains(names, u.GetQueue()) {
			names = append(names, u.GetQueue())
		}
	}
	return names
}
