package slurmcmd

import (
	"cmp"
	"context"
	"slices"
	"strings"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/server/api"
)

// This file implements `seff` and `sprio`.

// seff prints what a job requested and what it used.
func (a *CLI) seff(words []string) error {
	f := slurmFlags("seff")
	if err := a.parse(f, words); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return exit.Hint("run `seff JOBID`", "seff requires one job ID")
	}
	return a.With(func(ctx context.Context, c *client.Client) error {
		o := &accountFlags{allUsers: true}
		o.JobList = f.Arg(0)
		if j, err := query.Find(c)(ctx, o.JobList); err == nil { // also by name; a job of the history has only its number
			o.JobList = slurm.Number(j.GetRecord().GetId())
		}
		all, err := a.accounts(ctx, c, o)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return query.InvalidJob(f.Arg(0))
		}
		cluster, err := c.Cluster(ctx, &api.Cluster{})
		if err != nil {
			return err
		}
		for i, e := range all {
			text := e.Report(cluster.GetClusterId())
			if i > 0 {
				text = "\n" + text
			}
			if err := a.Page(text); err != nil {
				return err
			}
		}
		return nil
	})
}

// sprio lists the waiting jobs by priority. A priority has no factors here, so there are no weights.
func (a *CLI) sprio(words []string) error {
	var o choice
	format := ""
	var noHeader, long bool
	f := slurmFlags("sprio")
	f.VarP(slurm.List{To: &o.JobList}, "jobs", "j", "")
	f.VarP(slurm.List{To: &o.Users}, "user", "u", "")
	f.VarP(slurm.List{To: &o.Partitions}, "partition", "p", "")
	f.StringVarP(&format, "format", "o", "", "")
	f.BoolVarP(&noHeader, "noheader", "h", false, "")
	f.BoolVarP(&long, "long", "l", false, "")
	if err := a.parse(f, words); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return refusedWord(f.Arg(0))
	}
	usual := slurm.PriorityFormat
	if long {
		usual = slurm.PriorityLong
	}
	before, columns, err := slurm.Percent(cmp.Or(format, usual), slurm.PriorityFields())
	if err != nil {
		return err
	}
	o.StateList = "PD"
	return a.With(func(ctx context.Context, c *client.Client) error {
		all, err := a.entries(ctx, c, &o)
		if err != nil {
			return err
		}
		slices.SortStableFunc(all, func(x, y *slurm.Entry) int {
			return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.SubmitMs, y.SubmitMs),
				strings.Compare(x.ID, y.ID))
		})
		return table(a, !noHeader, before, columns, all)
	})
}
