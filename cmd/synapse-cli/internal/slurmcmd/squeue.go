package slurmcmd

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/pflag"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements `squeue`.

// choice holds the selection of jobs of a listing, as the options say it.
type choice struct {
	query.Choice
	others bool
}

// listed returns the selected states, and all known jobs including elements.
func (o *choice) listed(ctx context.Context, c *client.Client) (states []string, jobs []*messages.JobStatus,
	err error) {
	if states, err = statesOf(o.StateList); err == nil {
		jobs, err = c.Jobs(ctx, &messages.ListJobs{Elements: true})
	}
	return states, jobs, err
}

// onNodes keeps the jobs on the selected nodes.
func (o *choice) onNodes(all []*slurm.Entry) ([]*slurm.Entry, error) {
	if o.NodeList == "" {
		return all, nil
	}
	nodes, err := slurm.Hostnames(o.NodeList)
	return query.OnNodes(all, nodes), err
}

// entries returns the selected unfinished jobs. An array represents its waiting elements.
func (a *CLI) entries(ctx context.Context, c *client.Client, o *choice) (all []*slurm.Entry, err error) {
	if o.others {
		if o.NotUser, err = a.me(ctx, c); err != nil {
			return nil, err
		}
	}
	if o.States, err = statesOf(o.StateList); err != nil {
		return nil, err
	}
	return query.Select(ctx, c, &o.Choice, time.Now(), a.Tell)
}

// statesOf parses a list of states; an empty list means those of unfinished jobs.
func statesOf(text string) ([]string, error) {
	states, unknown := query.States(text)
	if unknown != "" {
		return nil, exit.Usage("Invalid job state specified: %s", unknown)
	}
	return states, nil
}

// queueVariables maps environment variables to options of squeue.
var queueVariables = map[string]string{
	"SQUEUE_ACCOUNT": "account", "SQUEUE_ARRAY": "array", "SQUEUE_FORMAT2": "Format", "SQUEUE_NAMES": "name",
	"SQUEUE_PARTITION": "partition", "SQUEUE_QOS": "qos", "SQUEUE_STATES": "states", "SQUEUE_USERS": "user",
}

func (a *CLI) squeue(words []string) error {
	var o choice
	var q command.Queue
	var long, sorted string
	var starts, object bool
	every := 0
	f := slurmFlags("squeue")
	add(f, &q, command.QueueOptions())
	f.IntVarP(&every, "iterate", "i", 0, "")
	f.BoolVar(&o.others, "notme", false, "")
	f.StringVarP(&long, "Format", "O", "", "")
	f.StringVarP(&sorted, "sort", "S", "", "")
	f.BoolVar(&starts, "start", false, "")
	jsonFlag(f, &object)
	if err := a.parse(f, words); err != nil {
		return err
	}
	if err := a.variables(f, queueVariables); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return refusedWord(f.Arg(0))
	case starts && q.StateList == "":
		q.StateList = "PD"
	}
	if err := interval(f, every); err != nil {
		return err
	}
	o.Choice.Choice, o.Each = q.Choice, q.Each
	before, columns, err := a.queueColumns(q.Format, long, q.Long, starts)
	sorted = cmp.Or(sorted, a.Variable("SQUEUE_SORT"))
	if sorted != "" && err == nil {
		err = slurm.Sort(nil, sorted)
	}
	if err != nil {
		return err
	}
	return a.iterate(every, func(ctx context.Context, c *client.Client) error {
		all, err := a.entries(ctx, c, &o)
		if err == nil && sorted != "" {
			err = slurm.Sort(all, sorted)
		}
		if err != nil {
			return err
		}
		if object {
			return answerJSON(ctx, a, c, "jobs", all, (*slurm.Entry).Object)
		}
		return table(a, !q.NoHeader, before, columns, all)
	})
}

// queueColumns returns the columns of squeue: those of -O, of -o, of the environment, or the usual ones.
func (a *CLI) queueColumns(format, long string, isLong, starts bool) (before string,
	columns []slurm.Column[*slurm.Entry], err error) {
	usual := slurm.QueueFormat
	if isLong {
		usual = slurm.QueueLong
	}
	if starts {
		usual = slurm.QueueStarts
	}
	before, columns, err = slurm.Percent(cmp.Or(format, a.Variable("SQUEUE_FORMAT"), usual), slurm.QueueFields())
	if long != "" && err == nil {
		before = ""
		columns, err = slurm.Named(long, ":", 20, slurm.QueueFields())
	}
	return before, columns, err
}

// interval refuses an interval of --iterate that is no number of seconds.
func interval(f *pflag.FlagSet, every int) error {
	if every < 0 || every == 0 && f.Changed("iterate") {
		return exit.Usage("Invalid iterate value: %d: use a number of seconds", every)
	}
	return nil
}

// iterate prints a listing once if seconds is 0. Otherwise it prints the listing again after each interval, until the
// program is interrupted or its reader is gone. Each listing then follows a line with the time, as in Slurm.
func (a *CLI) iterate(seconds int, list func(context.Context, *client.Client) error) error {
	return a.With(func(ctx context.Context, c *client.Client) error {
		if seconds == 0 {
			return list(ctx, c)
		}
		for {
			err := a.Data("%s", time.Now().Format(time.ANSIC))
			if err == nil {
				err = list(ctx, c)
			}
			if err != nil {
				return err
			}
			if err := a.Data(""); err != nil {
				return err
			}
			time.Sleep(time.Duration(seconds) * time.Second)
		}
	})
}
