package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements `wait`.

func (a *app) waitCommand() *cobra.Command {
	timeout, until := "", ""
	quiet := false
	var labels []string
	c := &cobra.Command{
		Use:   "wait [JOB]... [-l key=value]...",
		Short: "wait until jobs end and exit with their code",
		Long: "Waits until all named jobs have ended. The exit code is 0 if all jobs succeeded. Otherwise, it is\n" +
			"the code of the first named job that did not succeed. If the scheduler becomes unavailable, the\n" +
			"command waits for it to return.\n\n" +
			"If --for is set, the command waits for a condition instead, and exits with 0 when all jobs meet it. If a job\n" +
			"ends and can no longer meet the condition, the command exits with the code of the job, or with 1.\n\n" +
			exitHelp,
		Example: "  synapse-cli wait JOB --timeout 2h && ./evaluate.sh\n" +
			"  synapse-cli wait --for=condition=running JOB",
		Args: func(_ *cobra.Command, args []string) error { return jobsOrLabels(args, labels) },
		RunE: func(_ *cobra.Command, args []string) error {
			limit, err := jobfile.ParseDuration(orZero(timeout))
			if err != nil {
				return flagProblem("timeout", err)
			}
			var g *goal
			if until != "" {
				if g, err = parseGoal(until); err != nil {
					return err
				}
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				if timeout != "" {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Duration(limit)*time.Millisecond)
					defer cancel()
				}
				if len(labels) > 0 {
					jobs, err := a.byLabels(ctx, c, labels)
					if err != nil {
						return err
					}
					for _, j := range jobs {
						args = append(args, j.GetRecord().GetId())
					}
				}
				if g != nil {
					return a.waitGoals(ctx, c, args, g, !quiet)
				}
				return a.waitAll(ctx, c, args, !quiet)
			})
		},
		ValidArgsFunction: a.completeLive,
	}
	c.Flags().StringVar(&timeout, "timeout", "",
		"maximum time to wait, such as 90s or 2h; the command then exits with code 6")
	c.Flags().StringVar(&until, "for", "",
		"wait for this `condition` instead of the end: condition=complete, condition=failed, condition=running, "+
			"phase=PHASE, delete (the end), or jsonpath='{PATH}'=VALUE")
	labelFlag(c, &labels, "all currently unfinished jobs")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing until a job ends")
	return c
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

// waitAll first finds all names, so that a wrong name is reported before a wait of hours.
func (a *app) waitAll(ctx context.Context, c *client.Client, args []string, progress bool) error {
	var ids []string
	for _, word := range args {
		found, err := c.Scope(ctx, word, c.Named)
		if err != nil {
			return a.waited(err, word)
		}
		ids = append(ids, idsOf(found)...)
	}
	var first error
	for _, id := range ids {
		err := a.waitFor(ctx, c, id, progress)
		if f, is := err.(*exit.Failure); err != nil && !is {
			return a.waited(err, id)
		} else if is && first == nil {
			first = f
		}
	}
	return first
}

func idsOf(jobs []*messages.JobStatus) (ids []string) {
	for _, j := range jobs {
		ids = append(ids, j.GetRecord().GetId())
	}
	return ids
}

func (a *app) waited(err error, id string) error {
	if exit.Code(err) == exit.TimedOut {
		return &exit.Failure{Code: exit.TimedOut, Text: "job " + id + " has not ended in time",
			Hint: "run `" + a.name + " explain " + id + "` to see its state"}
	}
	return err
}
