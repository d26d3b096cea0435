package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/room"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `run`, which runs a command with this terminal in a new job. The tasks of the job run a
// keeper, which holds the resources. The command is an exec session in rank 0. Its exit code is sent to the keeper,
// so that the job ends like the command. If this program dies, a pipe in the job closes, and the keeper ends.

// runOptions holds the options of one `run`.
type runOptions struct {
	submission
	terminal bool
	keep     bool
}

func (a *app) runCommand() *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARG]...",
		Short: "run a command in a new job with this terminal attached",
		Long: "Submits a job, waits for its allocation, runs the command in it with this terminal attached, and\n" +
			"exits with the command's exit code. The job ends with the command. If there are several tasks, the\n" +
			"command runs in rank 0. Before COMMAND, you can use all flags of `submit` that describe a job; the\n" +
			"default --image is host. While the job waits, Ctrl-C cancels the job. While the command runs, Ctrl-C\n" +
			"interrupts the command. If synapse-cli ends before the command, the job ends with code 129, unless\n" +
			"--keep is set.",
		Example: "  synapse-cli run --gpu 1 env\n" +
			"  synapse-cli run --gpu 1 --time-limit 2h -- bash      # a shell on a node with a GPU\n" +
			"  echo hello | synapse-cli run -- cat",
		Args: func(c *cobra.Command, args []string) error { return o.check(c, args) },
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("pty") {
				o.terminal = isTerminal(a.stdin) && isTerminal(a.stdout)
			}
			return a.run(o, args)
		},
		ValidArgsFunction: filesOnly,
	}
	f := c.Flags()
	f.SetInterspersed(false)
	o.specFlags.add(f)
	o.secretFlags.add(f)
	f.BoolVar(&o.terminal, "pty", false,
		"allocate a terminal for the command (default: true if synapse-cli has a terminal)")
	f.BoolVar(&o.keep, "keep", false, "keep the job's allocation after the command or synapse-cli has ended")
	f.BoolVar(&o.allowInfeasible, "allow-infeasible", false, "queue the job even if no current node can run it")
	a.completeFlag(c, "queue", a.completeQueues)
	groupFlags(c)
	return c
}

func isTerminal(stream any) bool {
	file, is := stream.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// check refuses unsupported options by the flag's name.
func (o *runOptions) check(c *cobra.Command, args []string) error {
	o.counted, o.prioritised = c.Flags().Changed("replicas"), c.Flags().Changed("priority")
	switch {
	case len(args) == 0:
		return exit.Hint("run `synapse-cli run --gpu 1 -- bash`", "COMMAND is missing")
	case args[0] == "":
		return exit.Hint("name the program to run, as in -- ./train.sh", "command is empty")
	case o.array != "":
		return exit.Hint("use submit --array", "--array cannot be used with `run`")
	case o.restarts.limit != 0:
		return exit.Hint("use submit --restarts",
			"--restarts cannot be used with `run`: the terminal is attached to one attempt")
	}
	return nil
}

// job returns the job that holds the resources for a command.
func (o *runOptions) job(a *app, command []string) (*messages.JobSpec, error) {
	o.image = cmp.Or(o.image, messages.HostImage)
	o.name = cmp.Or(o.name, defaultName(command, o.image))
	manner := "leave"
	if o.keep {
		manner = "stay"
	}
	spec, err := o.spec(append([]string{"/bin/sh", "-c", room.Keeper, "run", manner}, command...), a.lookup)
	if err != nil {
		return nil, err
	}
	beginHere(spec)
	specs := []*messages.JobSpec{spec}
	if err := o.nameSecrets(specs, true); err != nil {
		return nil, err
	}
	return spec, a.fillSecrets(&o.submission, specs)
}

func (a *app) run(o *runOptions, command []string) error {
	spec, err := o.job(a, command)
	if err != nil {
		return err
	}
	return a.with(func(ctx context.Context, c *client.Client) error {
		if err := c.Precede(ctx, spec, c.Named); err != nil {
			return err
		}
		waiting, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop() // before the submit, after which a job must be cancelled
		reply, err := c.Send(ctx, &messages.Submit{
			RequestId: "cli-" + rand.Text(), Spec: spec, AllowInfeasible: o.allowInfeasible,
		})
		if err != nil {
			return letWait(err)
		}
		id := reply.GetJob()
		err = a.placed(waiting, c, id, o.keep, func(why string) {
			a.say("%s: job %s waits: %s", a.name, id, a.local(why))
		})
		if err != nil {
			return err
		}
		stop() // from here on, signals go to the command
		first := &api.ExecIn{Job: id, Command: command}
		if !o.keep {
			return a.inside(ctx, c, first, true, o.terminal, true)
		}
		err = a.converse(ctx, c, first, true, o.terminal)
		a.say("job %s keeps its allocation: `%s exec %s -it -- CMD` runs a command in the allocation, `%s cancel %s` "+
			"ends the job", id, a.name, id, a.name, id)
		return err
	})
}

// placed waits until a job runs, and prints why it waits. Ctrl-C, which ends waiting, cancels the job unless it is
// kept.
func (a *app) placed(waiting context.Context, c *client.Client, id string, keep bool, tell func(string)) error {
	told := ""
	j, err := c.WaitUntil(waiting, id, a.lost, func(j *messages.JobStatus) bool {
		if why := j.GetReason(); messages.Waits(j.GetPhase()) && why != "" &&
			j.GetReasonCode() != messages.WaitEvaluating.String() && why != told {
			told = why
			tell(why)
		}
		return j.GetPhase() == messages.PhaseRunning || j.GetRecord().GetState().Terminal()
	})
	switch {
	case waiting.Err() != nil && keep:
		return a.detached(id)
	case waiting.Err() != nil:
		a.abandon(c, id, "interrupted before its allocation started")
		return context.Canceled
	case err != nil:
		return err
	case j.GetRecord().GetState().Terminal():
		return a.over(j)
	}
	return nil
}

// abandon cancels a job for which no user waits any more. A finished job is not an error.
func (a *app) abandon(c *client.Client, id, why string) {
	_, err := c.Cancel(context.Background(), &messages.Cancel{Job: id, Reason: why})
	if err != nil && exit.Code(err) != exit.Conflict && exit.Code(err) != exit.NotFound {
		text, _ := exit.Words(err)
		a.say("%s: cannot cancel job %s: %s", a.name, id, text)
	}
}

// inside runs the command in a running job, and ends the job like the command. With each, every rank has a keeper;
// otherwise only rank 0.
func (a *app) inside(ctx context.Context, c *client.Client, first *api.ExecIn, stdin, terminal, each bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	line, err := room.Held(ctx, c, first.Job, 0)
	if err != nil {
		a.abandon(c, first.Job, "its command could not be run")
		return room.NotRun(err)
	}
	ended := a.converse(ctx, c, first, stdin, terminal)
	code := 0
	if ended != nil {
		code = exit.Code(ended)
	}
	room.LetGo(line, code)
	if code == exit.Unavailable {
		a.lapsed(c, first.Job, ended)
	}
	if each && code == 0 {
		a.release(ctx, c, first.Job)
	}
	return a.concluded(ctx, c, first.Job, ended)
}

// lapsed cancels a job whose command was lost, because the state of the keeper is unknown.
func (a *app) lapsed(c *client.Client, id string, ended error) {
	if f := (*exit.Failure)(nil); errors.As(ended, &f) && f.Text != "" {
		a.abandon(c, id, "the connection to its command was lost")
	}
}

// concluded waits for the end of a job whose command has ended. It reports a job that was stopped from outside. A
// job that would run again, because its node was lost, is cancelled, because it would run without its command.
func (a *app) concluded(ctx context.Context, c *client.Client, id string, ended error) error {
	ctx, cancel := context.WithTimeout(ctx, room.Patience)
	defer cancel()
	run := int32(0)
	j, err := c.WaitUntil(ctx, id, a.lost, func(j *messages.JobStatus) bool {
		run = cmp.Or(run, j.GetRecord().GetRuns())
		return j.GetRecord().GetState().Terminal() || messages.Waits(j.GetPhase()) || j.GetRecord().GetRuns() > run
	})
	switch state := j.GetRecord().GetState(); {
	case err != nil:
		a.say("%s: job %s has not ended: `%s cancel %s` ends it", a.name, id, a.name, id)
	case state == messages.JobState_JOB_STATE_TIMED_OUT:
		a.say("%s", howItEnded(j))
		return exit.With(show.ExitCode(j.GetRecord()))
	case state == messages.JobState_JOB_STATE_CANCELLED && j.GetRecord().GetCancel() != nil:
		a.say("%s", howItEnded(j))
	case !state.Terminal():
		a.abandon(c, id, "its command was lost with an earlier run")
	}
	return ended
}

// release ends the keepers of all ranks except 0, one after the other. Each takes a moment and keeps no connection.
// If rank 0 fails, all keepers end anyway.
func (a *app) release(ctx context.Context, c *client.Client, id string) {
	ctx, cancel := context.WithTimeout(ctx, room.Patience)
	defer cancel()
	j, err := c.Job(ctx, id)
	if err != nil {
		return // the wait for the end of the job reports the error
	}
	for rank := 1; rank < len(j.GetAttempt().GetPlaces()); rank++ {
		line, err := room.Held(ctx, c, id, rank)
		if err != nil {
			continue
		}
		room.LetGo(line, 0)
		_ = room.Hear(line, &room.Heard{Out: a.stderr, Errs: a.stderr})
	}
}
