package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file has the command checkpoint, which requests a checkpoint of a running job.

// savedEvery is the time between two looks at a request.
const savedEvery = 500 * time.Millisecond

func (a *app) checkpointCommand() *cobra.Command {
	reason, step, wait := "", "", false
	c := &cobra.Command{
		Use: "checkpoint [JOB]", Short: "request a checkpoint of a running job, which continues",
		Example: "  synapse-cli checkpoint JOB --wait",
		Args: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("ack") {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
		ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("ack") {
				return a.acknowledge(step)
			}
			return a.with(func(ctx context.Context, c *client.Client) error {
				return a.checkpoint(ctx, c, args[0], reason, wait)
			})
		},
	}
	c.Long = "Requests a checkpoint of the running attempt of a job. The job file must name how the job saves:\n" +
		"`checkpoint: {signal: USR1, grace: 5m}`. The job continues after the checkpoint.\n\n" +
		"With --wait, the command ends when all required ranks have acknowledged the same step, and prints\n" +
		"the step of each rank. If a rank does not acknowledge within the grace, the command fails.\n\n" +
		"Inside a task of a job with `ack: socket`, --ack acknowledges that the task has saved the checkpoint.\n" +
		"`$SYNAPSE_EXEC --ack STEP` does the same and needs no synapse-cli in the image."
	c.Flags().StringVar(&step, "ack", "", "inside a task, the step of the checkpoint that the task has saved")
	c.Flags().StringVarP(&reason, "reason", "r", "", "reason to record")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the ranks have acknowledged the checkpoint")
	return c
}

// acknowledge lets synapse-exec, which each task has, acknowledge a checkpoint of this task.
func (a *app) acknowledge(step string) error {
	program, _ := a.lookup("SYNAPSE_EXEC")
	if program == "" {
		return exit.Hint("to request a checkpoint, run `synapse-cli checkpoint JOB`",
			"--ack works only inside a task: SYNAPSE_EXEC is not set")
	}
	command := exec.Command(program, "--ack", step)
	command.Stdout, command.Stderr = a.out, a.errs
	err := command.Run()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return exit.With(failed.ExitCode())
	}
	return err
}

func (a *app) checkpoint(ctx context.Context, c *client.Client, job, reason string, wait bool) error {
	reply, err := c.Checkpoint(ctx, &messages.Checkpoint{Job: job, Reason: reason})
	if err != nil {
		return err
	}
	if !wait {
		a.say("job %s is asked to save a checkpoint, request %d", reply.GetJob(), reply.GetRequest())
		return nil
	}
	for {
		j, err := c.GetJob(ctx, &messages.GetJob{Job: reply.GetJob()})
		if err != nil {
			return err
		}
		if ended, err := a.saved(j.GetJob(), reply.GetRequest()); ended {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(savedEvery):
		}
	}
}

// saved prints the result of a request after its end, and reports whether it has ended.
func (a *app) saved(j *messages.JobStatus, request uint64) (ended bool, err error) {
	s, name := j.GetSaving(), j.GetRecord().GetId()
	switch done := j.GetAttempt().GetSaved(); {
	case s.GetRequest() == request && s.GetState() == messages.SaveState_SAVE_STATE_OPEN:
		return false, nil
	case s.GetRequest() == request && s.GetState() == messages.SaveState_SAVE_STATE_SAVED:
		for _, r := range s.GetRanks() {
			fmt.Fprintf(a.out, "rank %d: step %s\n", r.GetRank(), stepsOf(r))
		}
		a.say("job %s saved step %d", name, s.GetStep())
		return true, nil
	case done.GetRequest() == request: // the attempt has ended after the checkpoint
		a.say("job %s saved step %d", name, done.GetStep())
		return true, nil
	case s.GetRequest() == request && s.GetProblem() != "":
		return true, fmt.Errorf("job %s has saved no checkpoint: %s", name, s.GetProblem())
	}
	return true, fmt.Errorf("job %s has saved no checkpoint: %s", name, missing(j))
}

// stepsOf returns the steps that a rank acknowledged.
func stepsOf(r *messages.RankSaved) string {
	if len(r.GetSteps()) == 0 {
		return "not named"
	}
	return strings.Trim(fmt.Sprint(r.GetSteps()), "[]")
}

// missing names the ranks that did not acknowledge, or says that the attempt has ended.
func missing(j *messages.JobStatus) string {
	have := map[int32]bool{}
	for _, r := range j.GetSaving().GetRanks() {
		have[r.GetRank()] = true
	}
	var late []string
	for _, p := range j.GetAttempt().GetPlaces() {
		if j.GetSaving() != nil && !have[p.GetRank()] && j.GetRecord().GetSpec().GetCheckpoint().NeedsSaved(p.GetRank()) {
			late = append(late, fmt.Sprintf("%d on %s", p.GetRank(), p.GetNode()))
		}
	}
	switch {
	case j.GetSaving().GetState() == messages.SaveState_SAVE_STATE_WITHDRAWN:
		return "the request was withdrawn"
	case j.GetSaving() == nil && j.GetPhase() == messages.PhaseRunning:
		return "the scheduler has changed, and dropped the request; run the command again"
	case j.GetSaving() == nil:
		return "its attempt has ended"
	case len(late) == 0:
		return "its ranks acknowledged different steps"
	case len(late) > 8:
		return fmt.Sprintf("%d ranks did not acknowledge, such as %s", len(late), late[0])
	}
	return "no acknowledgement of rank " + strings.Join(late, ", ")
}
