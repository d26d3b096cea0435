package slurmcmd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/room"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `scancel`, which cancels jobs or sends signals to their processes.

// cancelVariables maps environment variables to options of scancel.
var cancelVariables = map[string]string{
	"SCANCEL_ACCOUNT": "account", "SCANCEL_NAME": "name", "SCANCEL_PARTITION": "partition", "SCANCEL_STATE": "state",
	"SCANCEL_USER": "user", "SCANCEL_BATCH": "batch", "SCANCEL_FULL": "full", "SCANCEL_QOS": "qos",
	"SCANCEL_WCKEY": "wckey",
}

func (a *CLI) scancel(words []string) error {
	var o choice
	var send slurm.Signal
	name := ""
	f := slurmFlags("scancel")
	add(f, &o.Choice.Choice, command.CancelOptions())
	f.StringVarP(&name, "signal", "s", "", "")
	f.BoolVarP(&send.Batch, "batch", "b", false, "")
	f.BoolVarP(&send.Full, "full", "f", false, "")
	if err := a.parse(f, words); err != nil {
		return err
	}
	err := a.variables(f, cancelVariables)
	if name != "" && err == nil {
		send.Name, err = slurm.ParseSignal(name)
	}
	if err != nil {
		return err
	}
	chosen := o.Limited()
	if f.NArg() == 0 && !chosen {
		return exit.Usage("No job identification provided")
	}
	return a.With(func(ctx context.Context, c *client.Client) error {
		if f.NArg() > 0 && !chosen {
			return a.cancelNamed(ctx, c, f.Args(), send)
		}
		o.JobList, o.Each = strings.Join(f.Args(), ","), o.StateList != "" // of an array, only the elements in that state
		all, err := a.entries(ctx, c, &o)
		fails := exit.Failures{Tell: a.Tell}
		fails.Note(err)
		if send.Cancels() {
			fails.Note(query.CancelSelected(ctx, c, all, a.Tell))
			return fails.First
		}
		for _, e := range all {
			if e.State == "RUNNING" {
				fails.Note(a.signal(ctx, c, e.Job, send))
			}
		}
		return fails.First
	})
}

// cancelNamed cancels the jobs of the arguments, or sends them a signal. A word can name a step: 7.0 or 7.batch.
func (a *CLI) cancelNamed(ctx context.Context, c *client.Client, words []string, send slurm.Signal) error {
	var whole []string
	fails := exit.Failures{Tell: a.Tell}
	one := func(words []string, send slurm.Signal) {
		if send.Cancels() {
			fails.Note(query.CancelNamed(ctx, c, words, a.Tell))
			return
		}
		fails.Note(a.eachJob(ctx, c, words, func(j *messages.JobStatus) error {
			id := j.GetRecord().GetId()
			switch {
			case j.GetRecord().GetState().Terminal():
				return nil // as in Slurm: finished jobs are ignored
			case j.GetRecord().GetSpec().GetArray() != nil:
				return a.signalElements(ctx, c, id, send)
			}
			return a.signal(ctx, c, id, send)
		}))
	}
	for _, word := range words {
		job, step := slurm.StepOf(word)
		if job == word {
			whole = append(whole, word)
			continue
		}
		step.Name, step.Full = send.Name, send.Full
		one([]string{job}, step)
	}
	if len(whole) > 0 {
		one(whole, send)
	}
	return fails.First
}

// signalElements sends a signal to the running elements of an array.
func (a *CLI) signalElements(ctx context.Context, c *client.Client, array string, send slurm.Signal) error {
	jobs, err := c.Jobs(ctx, &messages.ListJobs{Elements: true})
	fails := exit.Failures{Tell: a.Tell}
	fails.Note(err)
	for _, j := range jobs {
		if j.GetRecord().GetSpec().GetElement().GetArray() == array && j.GetPhase() == messages.PhaseRunning {
			fails.Note(a.signal(ctx, c, j.GetRecord().GetId(), send))
		}
	}
	return fails.First
}

// signalsAtOnce limits the tasks of a job that get a signal at the same time.
const signalsAtOnce = 16

// signal sends a signal to the processes of a running job.
func (a *CLI) signal(ctx context.Context, c *client.Client, id string, send slurm.Signal) error {
	j, err := c.Named(ctx, id)
	if err != nil {
		return err
	}
	if j.GetPhase() != messages.PhaseRunning {
		return &exit.Failure{Code: exit.Failed, Text: "Kill job error on job id " + slurm.Number(id) +
			": the job is " + j.GetPhase() + ", and only a running job gets a signal"}
	}
	ranks := []int32{0}
	for _, p := range j.GetAttempt().GetPlaces() {
		if !slices.Contains(ranks, p.GetRank()) {
			ranks = append(ranks, p.GetRank())
		}
	}
	var lock sync.Mutex
	var all sync.WaitGroup
	var failed []error
	found := 0
	free := make(chan struct{}, signalsAtOnce)
	for _, rank := range ranks {
		command, has := send.In(j.GetRecord().GetSpec(), int(rank))
		if !has {
			continue
		}
		free <- struct{}{}
		all.Go(func() {
			n, err := signalled(ctx, c, id, rank, command)
			lock.Lock()
			defer lock.Unlock()
			failed = append(failed, err)
			found += n
			<-free
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		if now, wrong := c.Named(ctx, id); found > 0 && wrong == nil && now.GetPhase() != messages.PhaseRunning {
			return nil // the first signals have ended the job, and with it the sessions in its other tasks
		}
		return err
	}
	if found == 0 {
		a.Say("%s: job %s has no such process: --batch signals the script, and --full also the script and its children",
			a.Name, slurm.Number(id))
	}
	return nil
}

// signalled runs the command in a task, and returns how many processes got the signal.
func signalled(ctx context.Context, c *client.Client, id string, rank int32, command []string) (int, error) {
	run, err := c.Execute(ctx, &api.ExecIn{Job: id, Rank: rank, Command: command, Env: []string{slurm.Marks}})
	if err != nil {
		return 0, room.NotRun(err)
	}
	_ = run.Send(&api.ExecIn{StdinEnds: true})
	var text, errs strings.Builder
	lost := room.Hear(run, &room.Heard{Out: &text, Errs: &errs})
	n, err := strconv.Atoi(strings.TrimSpace(text.String()))
	switch {
	case n > 0: // the signal may have ended the task
		return n, nil
	case lost != nil:
		return 0, lost
	case err != nil:
		return 0, &exit.Failure{Code: exit.Failed,
			Text: "rank " + strconv.Itoa(int(rank)) + ": the signal was not sent: " + strings.TrimSpace(errs.String())}
	}
	return n, nil
}
