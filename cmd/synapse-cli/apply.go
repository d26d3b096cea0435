package main

import (
	"context"
	"slices"

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

// This file implements `apply`, and the queues in `get` and `describe`.

func (a *app) applyCommand() *cobra.Command {
	var file string
	dryRun := false
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "apply queue configuration from a file",
		Long: "Replaces the cluster's queue configuration with the queues in a file. The new configuration is on\n" +
			"the scheduler's disk when the command ends. Running jobs are not stopped. If the file has the key\n" +
			"`revision`, the command fails with code 4 unless this revision is the current one. `get queues -o\n" +
			"yaml` writes the current configuration with its revision. If a queue has jobs and is missing from\n" +
			"the file, the queue is closed. A closed queue accepts no new jobs and has no quota. Queued jobs of a\n" +
			"closed queue can still start.",
		Example: "  synapse-cli apply -f queues.yaml --dry-run\n  synapse-cli apply -f queues.yaml\n" +
			"  synapse-cli get queues -o yaml > queues.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 || file == "" {
				return exit.Hint("run `"+a.name+" apply -f queues.yaml`",
					"-f is missing: it names the file of queues")
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			tree, err := a.queuesIn(file)
			if err != nil {
				return err
			}
			return a.with(func(ctx context.Context, c *client.Client) error { return a.apply(ctx, c, tree, dryRun) })
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "queue configuration `file`; - is standard input")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show the effect of the change without applying it")
	return c
}

// queuesIn reads a queue file.
func (a *app) queuesIn(file string) (*share.Queues, error) {
	name, data, err := input(file, a.stdin)
	if err != nil {
		return nil, err
	}
	tree, err := jobfile.ParseQueues(data)
	if _, bad := jobfile.Parse(data); err != nil && bad == nil {
		return nil, exit.Hint("run `submit "+name+"` to submit the jobs",
			"%s contains jobs; apply needs a file of queues", name)
	}
	if problems, ok := err.(jobfile.Problems); ok {
		return nil, refusedFile(name, problems)
	}
	return tree, err
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
			return a.with(func(ctx context.Context, c *client.Client) error {
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
			})
		},
	}
	a.listFlags(c)
	return c
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
