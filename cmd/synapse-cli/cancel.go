package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/client"
	"github.com/yi-json/synapse/messages"
)

// This file owns what is done to jobs: `cancel`, `hold`, `release`, `requeue`.

// deed does something to one job, by its whole id, and says what became of it.
type deed func(ctx context.Context, c *client.Client, id string) (string, error)

// jobsCommand makes a command that does the same to many jobs.
func (a *app) jobsCommand(use, short, example string, do deed) *cobra.Command {
	var labels []string
	c := &cobra.Command{
		Use: use + " [JOB]... [-l key=value]...", Short: short, Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && len(labels) == 0:
				return usageHint("name jobs, or give -l key=value", "no job is named")
			case len(args) > 0 && len(labels) > 0:
				return usage("jobs are named, and -l chooses others: give one of both")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error { return a.toJobs(ctx, c, args, labels, do) })
		},
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().StringArrayVarP(&labels, "label", "l", nil, "all that live and have this `key=value`")
	return c
}

// toJobs does it to each. One that fails does not keep the others from it; the
// first failure gives the exit code.
func (a *app) toJobs(ctx context.Context, c *client.Client, args, labels []string, do deed) error {
	var first error
	fail := func(err error) {
		if closedPipe(err) {
			return
		}
		if first == nil {
			first = err
			return
		}
		text, _ := words(err)
		a.say("%s: %s", a.name, text)
	}
	ids := []string{}
	if len(labels) > 0 {
		wanted, err := parseLabels("label", labels)
		if err != nil {
			return err
		}
		jobs, err := c.Jobs(ctx, &messages.ListJobs{Labels: wanted})
		if err != nil {
			return err
		}
		for _, j := range slices.DeleteFunc(jobs, over) {
			ids = append(ids, j.GetRecord().GetId())
		}
		if len(ids) == 0 {
			a.say("no job that lives has these labels")
		}
	}
	for _, prefix := range args {
		status, err := c.Job(ctx, prefix)
		if err != nil {
			fail(err)
			continue
		}
		if id := status.GetRecord().GetId(); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		done, err := do(ctx, c, id)
		if err == nil {
			err = a.data("Job %s %s", id, done)
		}
		if err != nil {
			fail(err)
		}
	}
	return first
}

func (a *app) cancelCommand() *cobra.Command {
	reason := ""
	c := a.jobsCommand("cancel", "cancel jobs: their tasks are stopped, their records stay",
		"  synapse-cli cancel JOB JOB --reason \"wrong data\"\n  synapse-cli cancel -l team=nlp",
		func(ctx context.Context, c *client.Client, id string) (string, error) {
			_, err := c.Cancel(ctx, &messages.Cancel{Job: id, Reason: reason})
			return "is being cancelled", err
		})
	c.Flags().StringVarP(&reason, "reason", "r", "", "why, for whoever asks later")
	return c
}

func (a *app) holdCommand() *cobra.Command {
	reason := ""
	c := a.jobsCommand("hold", "keep jobs from being started; what runs goes on", "  synapse-cli hold JOB --reason \"waits for the data\"",
		func(ctx context.Context, c *client.Client, id string) (string, error) {
			_, err := c.Hold(ctx, &messages.Hold{Job: id, Reason: reason})
			return "held", err
		})
	c.Flags().StringVarP(&reason, "reason", "r", "", "why, for whoever asks later")
	return c
}

func (a *app) releaseCommand() *cobra.Command {
	return a.jobsCommand("release", "let jobs that are held be started again", "  synapse-cli release JOB",
		func(ctx context.Context, c *client.Client, id string) (string, error) {
			_, err := c.Hold(ctx, &messages.Hold{Job: id, Release: true})
			return "released", err
		})
}

func (a *app) requeueCommand() *cobra.Command {
	reason, hold := "", false
	c := a.jobsCommand("requeue", "stop jobs and have them wait for their turn again, in their old place",
		"  synapse-cli requeue JOB --reason \"slow disk on n7\"\n  synapse-cli requeue -l team=nlp --hold",
		func(ctx context.Context, c *client.Client, id string) (string, error) {
			return requeue(ctx, c, id, reason, hold)
		})
	c.Flags().StringVarP(&reason, "reason", "r", "", "why, for whoever asks later")
	c.Flags().BoolVar(&hold, "hold", false, "and hold them, until they are released")
	return c
}

// requeue names the run that it saw: the call may be tried again, and the job
// may run again by then.
func requeue(ctx context.Context, c *client.Client, id, reason string, hold bool) (string, error) {
	status, err := c.Job(ctx, id)
	if err != nil {
		return "", err
	}
	run, stopped := status.GetRecord().GetRuns(), int32(0)
	switch {
	case run > 0:
		reply, failed := c.Requeue(ctx, &messages.Requeue{Job: id, Reason: reason, Hold: hold, Run: run})
		stopped, err = reply.GetRun(), failed
	case hold:
		_, err = c.Hold(ctx, &messages.Hold{Job: id, Reason: reason})
	}
	switch {
	case stopped > 0 && hold:
		return fmt.Sprintf("held: run %d is being stopped", stopped), err
	case stopped > 0:
		return fmt.Sprintf("requeued: run %d is being stopped", stopped), err
	case hold:
		return "held: there was no run to stop", err
	}
	return "waits already", err
}
