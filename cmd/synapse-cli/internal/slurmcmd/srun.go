package slurmcmd

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/room"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `srun` outside a script: a new job that ends with its command, or a step in an existing job.
// The new job is an sbatch job with a keeper instead of a script (run.go). A step runs the job's own srun on the
// first node.

func (a *CLI) srun(words []string) error {
	if path := a.scriptsOwn("srun"); path != "" {
		return a.instead(path, words)
	}
	b, command, err := slurm.ParseStep(words, a.Lookup)
	if err != nil {
		return err
	}
	if b.ListsMPI() {
		_, err := io.WriteString(a.Stdout, slurm.MPITypes)
		return err
	}
	a.warn(b)
	step, env, err := b.Step(command, sbatch.Here())
	if err != nil {
		return err
	}
	first := &api.ExecIn{Command: step, Env: env}
	return a.With(func(ctx context.Context, c *client.Client) error {
		if b.InJob() == "" {
			if first.Job, err = a.room(ctx, c, b, "leave"); err != nil {
				return err
			}
			return a.Inside(ctx, c, first, b.Input(), b.Terminal(), false)
		}
		j, err := c.One(ctx, b.InJob(), query.Find(c))
		if err != nil {
			return err
		}
		if first.Job = j.GetRecord().GetId(); b.Terminal() {
			if first.Rank, err = rankOn(j, b.First()); err != nil {
				return err
			}
		}
		return a.Converse(ctx, c, first, b.Input(), b.Terminal())
	})
}

// rankOn returns the first rank on a node. An empty name means any node.
func rankOn(j *messages.JobStatus, node string) (int32, error) {
	if node == "" {
		return 0, nil
	}
	for _, p := range j.GetAttempt().GetPlaces() {
		if p.GetNode() == node {
			return p.GetRank(), nil
		}
	}
	return 0, &slurm.Refusal{Option: "--nodelist", Text: "node " + node + " is not part of job " +
		slurm.Number(j.GetRecord().GetId())}
}

// scriptsOwn returns the path of a script's own program if this process runs in an sbatch job whose PATH does not
// contain it. It returns "" outside such a job.
func (a *CLI) scriptsOwn(name string) string {
	hosts, ok := a.Lookup("SYNAPSE_HOSTFILE")
	if !ok {
		return ""
	}
	path := filepath.Join(filepath.Dir(hosts), "slurm", "bin", name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// instead replaces this process by another program.
func (a *CLI) instead(path string, words []string) error {
	run := exec.Command(path, words...)
	run.Stdin, run.Stdout, run.Stderr = a.Stdin, a.Stdout, a.Stderr
	return a.alongside(run, nil)
}

// alongside runs a local program and ends like it. The program has the terminal and gets Ctrl-C directly. Signals
// to this process only, and those from others, are forwarded.
func (a *CLI) alongside(run *exec.Cmd, others <-chan os.Signal) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := run.Start(); err != nil {
		return err
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case s := <-signals:
				if s != os.Interrupt {
					_ = run.Process.Signal(s)
				}
			case s := <-others:
				_ = run.Process.Signal(s)
			case <-over:
				return
			}
		}
	}()
	err := run.Wait()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return exit.With(128 + int(status.Signal()))
		}
		return exit.With(ended.ExitCode())
	}
	return err
}

// room submits a job that holds resources, and waits until it runs. Ctrl-C cancels the job meanwhile.
func (a *CLI) room(ctx context.Context, c *client.Client, b *slurm.Batch, manner string) (string, error) {
	spec, err := a.asked(ctx, c, b, func(from slurm.Submitter) (*messages.JobSpec, error) {
		return b.Room(room.Keeper, manner, from)
	})
	if err != nil {
		return "", err
	}
	waiting, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop() // before the submit, after which a job must be cancelled
	reply, err := c.Send(ctx, &messages.Submit{RequestId: "cli-" + rand.Text(), Spec: spec})
	if err != nil {
		return "", err
	}
	id, queued := reply.GetJob(), false
	number := messages.NumericID(id)
	err = a.Placed(waiting, c, id, false, func(why string) {
		if !queued {
			a.Say("%s: job %s queued and waiting for resources", a.Name, number)
		}
		queued = true
		a.Say("%s: job %s waits: %s", a.Name, number, why)
	})
	if queued && err == nil {
		a.Say("%s: job %s has been allocated resources", a.Name, number)
	}
	return id, err
}

// toldBy returns the output of a command in a task.
func toldBy(ctx context.Context, c *client.Client, id string, command ...string) (string, error) {
	run, err := c.Execute(ctx, &api.ExecIn{Job: id, Command: command})
	if err != nil {
		return "", room.NotRun(err)
	}
	_ = run.Send(&api.ExecIn{StdinEnds: true})
	var text strings.Builder
	err = room.Hear(run, &room.Heard{Out: &text, Errs: io.Discard})
	return text.String(), err
}
