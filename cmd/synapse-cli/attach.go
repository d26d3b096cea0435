package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `attach` and `submit --attach`, which show a job's output until the job ends. The first
// Ctrl-C shows the state of the job and detaches. A second one immediately afterwards cancels the job.

const (
	// secondChance is the time in which a second Ctrl-C cancels the job.
	secondChance = 2 * time.Second
	// sameInterrupt is the time in which signals count as the same interrupt. A terminal sends an interrupt to
	// a whole process group. A program between the terminal and this one may forward the signal, so that it
	// arrives twice.
	sameInterrupt = 150 * time.Millisecond
)

const (
	// drainOutput limits the wait for the last output after the end of the job. It is a little longer than the
	// scheduler's wait for an unresponsive node.
	drainOutput = 75 * time.Second
	// drainTold is the time after which the user sees that the command waits.
	drainTold = 5 * time.Second
)

// attachCommand returns `attach`, which shows a job that was already submitted.
func (a *app) attachCommand() *cobra.Command {
	tail, tailBytes := "", ""
	var chosen []string
	c := &cobra.Command{
		Use:   "attach JOB",
		Short: "show the output of a job until it ends and exit with its code",
		Long: "Shows the output of a job until the job ends, and exits with the job's code. Standard output and\n" +
			"standard error stay separate. Press Ctrl-C once to print the job's state and detach. Press Ctrl-C\n" +
			"again immediately afterwards to cancel the job. To submit a job and attach to it, use `submit\n" +
			"--attach`.",
		Example: "  synapse-cli attach JOB\n  synapse-cli attach JOB --tail 20",
		Args:    oneJob(&chosen),
		RunE: func(_ *cobra.Command, args []string) error {
			q := &api.ReadLogs{}
			if err := readTail(q, tail, tailBytes); err != nil {
				return err
			}
			return a.withJob(args, chosen, func(ctx context.Context, c *client.Client, status *messages.JobStatus) error {
				return a.attach(c, q, status)
			})
		},
		ValidArgsFunction: a.completeLive,
	}
	labelFlag(c, &chosen, "the unfinished job")
	c.Flags().StringVar(&tail, "tail", "",
		"start with the last `N` lines of each rank's standard output and standard error")
	c.Flags().StringVar(&tailBytes, "tail-bytes", "", "start with the last part of each stream, of this `size`, "+
		"such as 64Ki")
	return c
}

// attach shows the output of a job as requested in q, until the job ends.
func (a *app) attach(c *client.Client, q *api.ReadLogs, job *messages.JobStatus) error {
	id := job.GetRecord().GetId()
	q.Job, q.Follow = id, true
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	interrupts := make(chan os.Signal, 3)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupts)

	output := make(chan error, 1)
	go func() { output <- a.output(ctx, c, q, job) }()
	finished := make(chan error, 1)
	cancelled := false
	var unread error // why some of the output was not shown
	var last *messages.JobStatus
	go func() {
		var err error
		last, err = c.Wait(ctx, id, a.lost, a.progress())
		finished <- err
	}()
	for {
		select {
		case err := <-finished:
			if err != nil {
				return err
			}
			if output != nil {
				unread = a.drain(id, output, interrupts)
			}
			if ended := a.over(last); ended != nil || unread == nil {
				return ended
			}
			return exit.With(exit.Code(unread)) // the missing part was reported
		case err := <-output:
			if exit.Closed(err) {
				return nil // the reader of the output closed it; the job continues
			}
			if err != nil {
				a.say("%s: output not shown: %s", a.name, err)
			}
			unread = err
			output = nil // the end of the job is still to come
		case s := <-interrupts:
			if cancelled || s == syscall.SIGTERM { // after SIGTERM, no user can press Ctrl-C again
				return a.detached(id)
			}
			if again := a.asksAgain(c, id, interrupts); !again {
				return a.detached(id)
			}
			if err := a.cancelAttached(c, id); err != nil {
				return err
			}
			cancelled = true
		}
	}
}

// drain waits for the rest of the output of a finished job. It returns why the rest cannot be shown.
func (a *app) drain(id string, output <-chan error, interrupts <-chan os.Signal) error {
	told, end := time.After(drainTold), time.After(drainOutput)
	for {
		select {
		case err := <-output:
			if err != nil && !exit.Closed(err) {
				a.say("%s: output not shown: %s", a.name, err)
				return err
			}
			return nil
		case <-told:
			a.say("%s: job %s has ended; waiting for the rest of its output (press Ctrl-C to stop waiting)", a.name, id)
		case <-end:
			a.say("%s: more output may follow: `%s logs %s`", a.name, a.name, id)
			return exit.With(exit.Unavailable)
		case <-interrupts:
			a.say("%s: more output may follow: `%s logs %s`", a.name, a.name, id)
			return nil
		}
	}
}

// output writes the output of the job: stdout to stdout, and stderr to stderr.
func (a *app) output(ctx context.Context, c *client.Client, q *api.ReadLogs, job *messages.JobStatus) error {
	spec := job.GetRecord().GetSpec()
	if spec.GetArray() != nil {
		return a.logsOfAll(ctx, c, q, job, nil, a.stdout, a.stderr)
	}
	return a.printer(a.stdout, a.stderr, severalRanks(spec)).read(ctx, c, q, nil)
}

// asksAgain shows the state of the job, and reports whether a second interrupt follows immediately.
func (a *app) asksAgain(c *client.Client, id string, more <-chan os.Signal) bool {
	ctx, cancel := context.WithTimeout(context.Background(), a.chance)
	defer cancel()
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		if status, err := c.Job(ctx, id); err == nil {
			line := "job " + id + " " + status.GetPhase()
			if status.GetReason() != "" {
				line += ": " + a.local(status.GetReason())
			}
			a.say("\n%s", line)
		}
		a.say("press Ctrl-C again to cancel the job; otherwise this command detaches and the job continues")
	}()
	defer func() { <-shown }()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return false
		case <-more:
			if time.Since(began) > a.same {
				return true
			}
		}
	}
}

func (a *app) cancelAttached(c *client.Client, id string) error {
	_, err := c.Cancel(context.Background(),
		&messages.Cancel{Job: id, Reason: "interrupted at the attached terminal"})
	if err == nil {
		a.say("cancelling job %s; press Ctrl-C to stop waiting for its end", id)
	}
	return err
}

// detached prints how to attach again.
func (a *app) detached(id string) error {
	a.say("detached from job %s: `%s logs -f %s` shows its output, `%s cancel %s` cancels it", id, a.name, id, a.name,
		id)
	return exit.With(exit.Interrupted)
}
