package slurmcmd

import (
	"cmp"
	"context"
	"crypto/rand"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/messages"
)

// This file implements the requests of `sbatch`. Package slurm parses its options.

func (a *CLI) sbatch(words []string) error {
	b, text, args, err := slurm.Parse(words, a.Lookup, a.Read)
	if err != nil {
		return err
	}
	a.warn(b)
	return a.With(func(ctx context.Context, c *client.Client) error {
		spec, err := a.asked(ctx, c, b, func(from slurm.Submitter) (*messages.JobSpec, error) {
			return b.Job(text, args, from)
		})
		if err != nil {
			return err
		}
		if b.TestOnly {
			reply, err := c.DryRun(ctx, &messages.DryRun{Spec: spec.Bare()})
			if err == nil {
				a.Say("sbatch: job is valid; it would wait for: %s", orNothing(reply.GetWaits()))
			}
			return err
		}
		id, err := a.batch(ctx, c, spec, b.Hold)
		if err != nil {
			return err
		}
		if err := a.Data("%s", b.Submitted(id)); err != nil || !b.Wait {
			return err
		}
		j, err := c.Wait(ctx, id, a.Lost, nil)
		if err != nil {
			return err
		}
		return exit.With(show.ExitCode(j.GetRecord()))
	})
}

// asked returns the requested job, completed with data from the cluster.
func (a *CLI) asked(ctx context.Context, c *client.Client, b *slurm.Batch,
	job func(slurm.Submitter) (*messages.JobSpec, error)) (*messages.JobSpec, error) {
	from := sbatch.Here()
	if from.As = from.User; from.As != "" && c.Identifies() {
		from.As = messages.UserMe // the local login name is not related to the owner
	}
	return query.Spec(ctx, c, b, from, job)
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

// batch submits a job, held if requested.
func (a *CLI) batch(ctx context.Context, c *client.Client, spec *messages.JobSpec, held bool) (string, error) {
	request := cmp.Or(a.Variable(sbatch.RequestVariable), "cli-"+rand.Text())
	reply, err := c.Send(ctx, &messages.Submit{RequestId: request, Spec: spec, Hold: held})
	return reply.GetJob(), err
}
