package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/messages"
)

// This file has the command checkpoint, which requests a checkpoint of a running job.

// savedEvery is the time between two looks at a request.
const savedEvery = 500 * time.Millisecond

func (a *app) checkpointCommand() *cobra.Command {
	reason, wait := "", false
	c := &cobra.Command{
		Use: "checkpoint JOB", Short: "request a checkpoint of a running job, which continues",
		Example: "  synapse-cli checkpoint JOB --wait",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				return a.checkpoint(ctx, c, args[0], reason, wait)
			})
		},
	}
	c.Long = "Requests a checkpoint of the running attempt of a job. The job file must name how the job saves:\n" +
		"`checkpoint: {signal: USR1, grace: 5m}`. The job continues after the checkpoint.\n\n" +
		"With --wait, the command ends when all required ranks have acknowledged the same step, and prints\n" +
		"the step of each rank. If a rank does not acknowledge within the grace, the command fails."
	c.Flags().StringVarP(&reason, "reason", "r", "", "reason to record")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the ranks have acknowledged the checkpoint")
	return c
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
