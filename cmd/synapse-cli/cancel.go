package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements the commands that change jobs: `cancel`, `hold`, `release`, `requeue`.

// act changes one job and returns a text about the result.
type act func(ctx context.Context, c *client.Client, j *messages.JobStatus) (string, error)

// jobsCommand returns a command that makes the same change to several jobs.
func (a *app) jobsCommand(use, short, example string, do act) *cobra.Command {
	var labels []string
	c := &cobra.Command{
		Use: use + " [JOB]... [-l key=value]...", Short: short, Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			return jobsOrLabels(args, labels)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error { return a.toJobs(ctx, c, args, labels, do) })
		},
		ValidArgsFunction: a.completeLive,
	}
	c.Flags().StringArrayVarP(&labels, "label", "l", nil, "select all unfinished jobs with these labels: "+selectorHelp)
	return c
}

// jobsOrLabels checks that jobs are selected either by name or by labels.
func jobsOrLabels(args, labels []string) error {
	switch {
	case len(args) == 0 && len(labels) == 0:
		return exit.Hint("pass job IDs or -l key=value", "job is missing")
	case len(args) > 0 && len(labels) > 0:
		return exit.Usage("JOB and -l cannot be combined")
	}
	return nil
}

// byLabels finds the jobs that -l selects: the unfinished ones or, if there are none, the finished ones.
func (a *app) byLabels(ctx context.Context, c *client.Client, labels []string) ([]*messages.JobStatus, error) {
	wanted, err := parseSelector(labels)
	if err != nil {
		return nil, err
	}
	jobs, err := c.Jobs(ctx, &messages.ListJobs{Labels: wanted.equal()})
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j *messages.JobStatus) bool { return !wanted.job(j) })
	if live := slices.DeleteFunc(slices.Clone(jobs), over); len(live) > 0 {
		return live, nil
	}
	if len(jobs) == 0 {
		return nil, &exit.Failure{Code: exit.NotFound, Text: "no job matches these labels", Hint: "run `" + a.name +
			" get jobs -o yaml` to see the labels of each job"}
	}
	return jobs, nil
}

// oneJob checks a command line that is about one job.
func oneJob(labels *[]string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(*labels) > 0 {
			return jobsOrLabels(args, *labels)
		}
		return named("job", "JOB", 1)(c, args)
	}
}

// withJob calls a function with the job that is named or that -l selects.
func (a *app) withJob(args, labels []string,
	do func(context.Context, *client.Client, *messages.JobStatus) error) error {
	return a.with(func(ctx context.Context, c *client.Client) error {
		job, err := a.oneJob(ctx, c, args, labels)
		if err != nil {
			return err
		}
		return do(ctx, c, job)
	})
}

// oneJob finds the job that is named or that -l selects.
func (a *app) oneJob(ctx context.Context, c *client.Client, args, labels []string) (*messages.JobStatus, error) {
	if len(args) > 0 {
		return c.Job(ctx, args[0])
	}
	jobs, err := a.byLabels(ctx, c, labels)
	if err != nil {
		return nil, err
	}
	if len(jobs) > 1 {
		var ids []string
		for _, j := range jobs {
			ids = append(ids, j.GetRecord().GetId())
		}
		return nil, &exit.Failure{Code: exit.Conflict,
			Text: fmt.Sprintf("%d jobs match these labels: %s", len(ids), someOf(ids)),
			Hint: "pass one job ID"}
	}
	return jobs[0], nil
}

// someOf joins the first few IDs.
func someOf(ids []string) string {
	if len(ids) > 5 {
		return strings.Join(ids[:5], ", ") + fmt.Sprintf(" and %d more", len(ids)-5)
	}
	return strings.Join(ids, ", ")
}

// labelFlag adds -l.
func labelFlag(c *cobra.Command, labels *[]string, what string) {
	c.Flags().StringArrayVarP(labels, "label", "l", nil, "select "+what+" with these labels: "+selectorHelp)
}

// toJobs changes each job. It continues after a failure.
func (a *app) toJobs(ctx context.Context, c *client.Client, args, labels []string, do act) error {
	f := exit.Failures{Tell: a.tell}
	jobs := []*messages.JobStatus{}
	if len(labels) > 0 {
		wanted, err := parseSelector(labels)
		if err != nil {
			return err
		}
		if jobs, err = c.Jobs(ctx, &messages.ListJobs{Labels: wanted.equal()}); err != nil {
			return err
		}
		if jobs = slices.DeleteFunc(jobs, func(j *messages.JobStatus) bool { return over(j) || !wanted.job(j) }); len(
			jobs) == 0 {
			a.say("no unfinished job matches these labels")
		}
	}
	named, err := c.Scoped(ctx, args, c.Named, f.Note)
	if err != nil {
		return err
	}
	for _, j := range append(jobs, named...) {
		done, err := do(ctx, c, j)
		if err == nil {
			err = a.data("Job %s %s", j.GetRecord().GetId(), done)
		}
		f.Note(err)
	}
	return f.First
}

func (a *app) cancelCommand() *cobra.Command {
	reason := ""
	c := a.jobsCommand("cancel", "cancel jobs and stop their tasks; the records of the jobs remain",
		"  synapse-cli cancel JOB JOB --reason \"wrong data\"\n  synapse-cli cancel -l team=nlp",
		func(ctx context.Context, c *client.Client, j *messages.JobStatus) (string, error) {
			_, err := c.Cancel(ctx, &messages.Cancel{Job: j.GetRecord().GetId(), Reason: reason})
			if j.GetRecord().GetState() == messages.JobState_JOB_STATE_CANCELLED {
				return "has already ended: cancelled", err
			}
			return "is being cancelled", err
		})
	c.Flags().StringVarP(&reason, "reason", "r", "", "reason to record, shown to other users")
	c.Aliases = []string{"delete"}
	var files []string
	c.Flags().StringArrayVarP(&files, "file", "f", nil,
		"cancel your unfinished jobs with the names in this job `file`; - is standard input")
	run, check := c.RunE, c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if len(files) == 0 {
			return check(c, args)
		}
		if len(args) > 0 || c.Flags().Changed("label") {
			return exit.Usage("-f cannot be combined with JOB or -l")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(files) > 0 {
			err := a.with(func(ctx context.Context, c *client.Client) (err error) {
				args, err = a.inFiles(ctx, c, files)
				return err
			})
			if err != nil {
				return err
			}
		}
		if c.CalledAs() == "delete" && len(args) > 1 && (args[0] == "job" || args[0] == "jobs") {
			args = args[1:] // as in kubectl: delete job NAME
		}
		return run(c, args)
	}
	return c
}

func (a *app) holdCommand() *cobra.Command {
	reason := ""
	c := a.jobsCommand("hold", "prevent jobs from starting; running jobs continue",
		"  synapse-cli hold JOB --reason \"waits for the data\"",
		func(ctx context.Context, c *client.Client, j *messages.JobStatus) (string, error) {
			_, err := c.Hold(ctx, &messages.Hold{Job: j.GetRecord().GetId(), Reason: reason})
			return "held", err
		})
	c.Flags().StringVarP(&reason, "reason", "r", "", "reason to record, shown to other users")
	return c
}

func (a *app) releaseCommand() *cobra.Command {
	return a.jobsCommand("release", "allow held jobs to start again", "  synapse-cli release JOB",
		func(ctx context.Context, c *client.Client, j *messages.JobStatus) (string, error) {
			_, err := c.Hold(ctx, &messages.Hold{Job: j.GetRecord().GetId(), Release: true})
			if j.GetRecord().GetHold() == nil && j.GetCounts() == nil {
				return "was not held", err
			}
			return "released", err
		})
}

func (a *app) requeueCommand() *cobra.Command {
	reason, hold, save := "", false, false
	c := a.jobsCommand("requeue", "stop jobs and return them to their place in the queue",
		"  synapse-cli requeue JOB --reason \"slow disk on n7\"\n  synapse-cli requeue -l team=nlp --hold",
		func(ctx context.Context, c *client.Client, j *messages.JobStatus) (string, error) {
			switch {
			case save && j.GetCounts() != nil:
				return "", exit.Hint("name the elements", "--checkpoint cannot be used for a complete array")
			case save:
				return c.RequeueSaved(ctx, j, reason, hold)
			case j.GetCounts() != nil:
				return c.RequeueAll(ctx, j, reason, hold)
			}
			return c.RequeueSeen(ctx, j, reason, hold)
		})
	c.Long = "Stops the current attempt of each job and returns the job to its place in the queue. The place\n" +
		"depends on the priority and the time of the submit. The next attempt starts after the last process\n" +
		"of this one has ended. The next attempt does not wait for a node that cannot be reached. If the job\n" +
		"sets stopWhenLost, however, the next attempt waits until the tasks on such a node have stopped\n" +
		"themselves.\n\n" +
		"A requeue does not count as a failure of the job or of a node. The next attempt has the complete\n" +
		"time limit. A job that already waits does not change. A finished job cannot be requeued; to run it\n" +
		"again, use `submit --from JOB`. When the command ends, the requeue is safe on the scheduler's disk."
	c.Flags().StringVarP(&reason, "reason", "r", "", "reason to record, shown to other users")
	c.Flags().BoolVar(&hold, "hold", false, "hold the jobs until they are released")
	c.Flags().BoolVar(&save, "checkpoint", false, "request a checkpoint first, and stop the job after it or at the "+
		"end of its checkpoint grace")
	return c
}
