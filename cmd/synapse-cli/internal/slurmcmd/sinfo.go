package slurmcmd

import (
	"cmp"
	"context"
	"slices"
	"strings"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
)

// This file implements `sinfo`, which lists the nodes of each partition.

// infoFlags holds the options of sinfo.
type infoFlags struct {
	format, fields, partitions, nodes, states             string
	noHeader, each, long, object, dead, responds, reasons bool
	summary                                               bool
	every                                                 int
}

func (a *CLI) sinfo(words []string) error {
	var o infoFlags
	f := slurmFlags("sinfo")
	f.StringVarP(&o.format, "format", "o", "", "")
	f.StringVarP(&o.fields, "Format", "O", "", "")
	f.VarP(slurm.List{To: &o.partitions}, "partition", "p", "")
	f.VarP(slurm.List{To: &o.nodes}, "nodes", "n", "")
	f.VarP(slurm.List{To: &o.states}, "states", "t", "")
	f.BoolVarP(&o.noHeader, "noheader", "h", false, "")
	f.BoolVarP(&o.each, "Node", "N", false, "")
	f.BoolVarP(&o.long, "long", "l", false, "")
	f.BoolVarP(&o.dead, "dead", "d", false, "")
	f.BoolVarP(&o.responds, "responding", "r", false, "")
	f.BoolVarP(&o.reasons, "list-reasons", "R", false, "")
	f.BoolVarP(&o.summary, "summarize", "s", false, "")
	f.IntVarP(&o.every, "iterate", "i", 0, "")
	jsonFlag(f, &o.object)
	if err := a.parse(f, words); err != nil {
		return err
	}
	err := a.variables(f, map[string]string{"SINFO_PARTITION": "partition"})
	if err == nil {
		err = interval(f, o.every)
	}
	if err != nil {
		return err
	}
	before, columns, err := o.columns(a)
	switch {
	case err != nil:
		return err
	case f.NArg() > 0:
		return refusedWord(f.Arg(0))
	}
	return a.iterate(o.every, func(ctx context.Context, c *client.Client) error {
		lines, err := a.infoLines(ctx, c, &o, columns)
		if err != nil {
			return err
		}
		if o.object {
			return answerJSON(ctx, a, c, "sinfo", lines, (*slurm.Partition).Line)
		}
		return table(a, !o.noHeader, before, columns, lines)
	})
}

// columns returns the columns of sinfo: those of -O, of -o, of the environment, or the usual ones. It also sets
// whether each node has a line.
func (o *infoFlags) columns(a *CLI) (before string, columns []slurm.Column[*slurm.Partition], err error) {
	usual := slurm.InfoFormat
	switch {
	case o.reasons:
		usual = slurm.InfoReasons
	case o.summary:
		usual = slurm.InfoSummary
	case o.long:
		o.each, usual = true, slurm.InfoLong
	case o.each:
		usual = slurm.InfoNodes
	}
	if o.fields != "" {
		columns, err = slurm.Named(o.fields, ":", 20, slurm.InfoFields())
		return "", columns, err
	}
	return slurm.Percent(cmp.Or(o.format, a.Variable("SINFO_FORMAT"), usual), slurm.InfoFields())
}

// keeps reports whether a node is selected.
func (o *infoFlags) keeps(m *slurm.Machine) bool {
	down := m.HasState("down*")
	return (o.states == "" || slices.ContainsFunc(strings.Split(o.states, ","), m.HasState)) && (!o.dead || down) &&
		(!o.responds || !down) && (!o.reasons || m.Why != "")
}

// infoLines returns the lines of sinfo.
func (a *CLI) infoLines(ctx context.Context, c *client.Client, o *infoFlags,
	columns []slurm.Column[*slurm.Partition]) ([]*slurm.Partition, error) {
	all, err := a.machinesNamed(ctx, c, o.nodes)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m *slurm.Machine) bool { return !o.keeps(m) })
	if o.reasons {
		return slurm.ByReason(all), nil
	}
	key := func(m *slurm.Machine) string { return m.State }
	switch {
	case o.each:
		key = func(m *slurm.Machine) string { return m.Name }
	case o.summary:
		key = func(*slurm.Machine) string { return "" }
	case !o.object && cmp.Or(o.fields, o.format, a.Variable("SINFO_FORMAT")) != "":
		key = func(m *slurm.Machine) string { return slurm.Group(columns, m) }
	}
	return query.Partitions(ctx, c, all, o.partitions, key)
}
