package slurmcmd

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/scope"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/internal/slurm/query"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements `sacct`, which lists the jobs of a time range.

// accountFlags holds the options of sacct.
type accountFlags struct {
	choice
	format, since, until, between       string
	noHeader, allUsers, closed, parsed2 bool
	object, brief, long, fields         bool
}

// flags adds the options of sacct.
func (o *accountFlags) flags(f *pflag.FlagSet) {
	f.VarP(slurm.List{To: &o.JobList}, "jobs", "j", "")
	f.VarP(slurm.List{To: &o.Users}, "user", "u", "")
	f.VarP(slurm.List{To: &o.Users}, "uid", "", "")
	f.VarP(slurm.List{To: &o.Names}, "name", "", "")
	f.VarP(slurm.List{To: &o.Partitions}, "partition", "r", "")
	f.VarP(slurm.List{To: &o.choice.Accounts}, "accounts", "A", "")
	f.VarP(slurm.List{To: &o.QOS}, "qos", "q", "")
	f.VarP(slurm.List{To: &o.WCKeys}, "wckeys", "W", "")
	f.VarP(slurm.List{To: &o.StateList}, "state", "s", "")
	f.VarP(slurm.List{To: &o.NodeList}, "nodelist", "N", "")
	f.StringVarP(&o.format, "format", "o", "", "")
	f.StringVarP(&o.since, "starttime", "S", "", "")
	f.StringVarP(&o.until, "endtime", "E", "", "")
	f.StringVar(&o.between, "delimiter", "|", "")
	f.BoolVarP(&o.noHeader, "noheader", "n", false, "")
	f.BoolVarP(&o.allUsers, "allusers", "a", false, "")
	f.BoolVarP(&o.closed, "parsable", "p", false, "")
	f.BoolVarP(&o.parsed2, "parsable2", "P", false, "")
	f.BoolVarP(&o.brief, "brief", "b", false, "")
	f.BoolVarP(&o.long, "long", "l", false, "")
	f.BoolVarP(&o.fields, "helpformat", "e", false, "")
	jsonFlag(f, &o.object)
}

// columns returns the columns of sacct: those of the options, of the environment, or the usual ones.
func (o *accountFlags) columns(a *CLI) ([]slurm.Column[*slurm.Entry], error) {
	usual := cmp.Or(a.Variable("SACCT_FORMAT"), slurm.AccountUsual)
	switch {
	case o.brief:
		usual = slurm.AccountBrief
	case o.long:
		usual = slurm.AccountLong
	}
	columns, err := slurm.Named(cmp.Or(o.format, usual), "%", 12, slurm.AccountFields())
	delimit(columns, o.between, o.closed, o.parsed2)
	return columns, err
}

func (a *CLI) sacct(words []string) error {
	var o accountFlags
	f := slurmFlags("sacct")
	o.flags(f)
	if err := a.parse(f, words); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return refusedWord(f.Arg(0))
	}
	columns, err := o.columns(a)
	switch {
	case err != nil:
		return err
	case o.fields:
		return a.Page(slurm.FieldNames(slurm.AccountFields()))
	}
	return a.With(func(ctx context.Context, c *client.Client) error {
		all, err := a.accounts(ctx, c, &o)
		if err != nil {
			return err
		}
		if o.object {
			return answerJSON(ctx, a, c, "jobs", all, (*slurm.Entry).PastObject)
		}
		return table(a, !o.noHeader, "", columns, all)
	})
}

// ago matches sacct's notation of a time before now.
var ago = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^now-(\d+)([mhd])[a-z]*$`)
})

// dated parses a date and time in the forms of Slurm users: 2026-11-26T10:00, or with a dash instead of the T.
func dated(text string) (unixMs int64, is bool) {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02-15:04:05", "2006-01-02-15:04"} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return max(at.UnixMilli(), 0), true
		}
	}
	return 0, false
}

// accounts returns the jobs of a time range, unfinished and finished, oldest first. The defaults are today and the
// caller's jobs. A named job is found in the complete history.
func (a *CLI) accounts(ctx context.Context, c *client.Client, o *accountFlags) ([]*slurm.Entry, error) {
	now := time.Now()
	sinceMs := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location()).UnixMilli()
	untilMs := int64(0)
	var err error
	if o.JobList != "" {
		sinceMs = 0
	}
	for _, t := range []struct {
		flag, text string
		to         *int64
	}{{"starttime", o.since, &sinceMs}, {"endtime", o.until, &untilMs}} {
		if t.text == "" || t.text == "now" {
			continue
		}
		if at, is := dated(t.text); is {
			*t.to = at
		} else if *t.to, err = a.Moment(t.flag, ago().ReplaceAllString(t.text, "$1$2"), now.UnixMilli()); err != nil {
			return nil, err
		}
	}
	if o.Users == "" && !o.allUsers && o.JobList == "" {
		if o.Users, err = a.me(ctx, c); err != nil {
			return nil, err
		}
	}
	named, err := accountsOf(ctx, c, o.JobList)
	if err != nil {
		return nil, err
	}
	states, jobs, err := o.listed(ctx, c)
	if err != nil {
		return nil, err
	}
	var all []*slurm.Entry
	past := map[string]bool{}
	keep := func(e *slurm.Entry) {
		if o.Has(e) && (len(named) == 0 || named.has(e)) && (len(states) == 0 || slices.Contains(states, e.State)) {
			all = append(all, e)
		}
	}
	ask := &messages.History{SinceUnixMs: sinceMs, UntilUnixMs: untilMs}
	if !strings.Contains(o.Users, ",") {
		ask.Owner = o.Users // the scheduler filters one user; for several it sends all
	}
	_, err = c.Past(ctx, ask, 0, func(reply *messages.HistoryReply) error {
		for _, p := range reply.GetJobs() {
			past[p.GetId()] = true // it may have finished since it was listed
			keep(slurm.Past(p))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j *messages.JobStatus) bool {
		return past[j.GetRecord().GetId()] || j.GetRecord().GetState().Terminal() || untilMs != 0
	})
	if err := query.Place(ctx, c, jobs); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		keep(slurm.Of(j, now.UnixMilli()))
	}
	slices.SortStableFunc(all, func(x, y *slurm.Entry) int { return cmp.Compare(x.SubmitMs, y.SubmitMs) })
	if all, err = o.onNodes(all); err != nil {
		return nil, err
	}
	return all, named.met()
}

// account is one job or scope of -j. Only the history knows old jobs, so they are matched there.
type account struct {
	*scope.Scope
	known bool // the scheduler knows the array, and its elements were checked
	found bool // an entry matched
}

type accounts []*account

// accountsOf parses the jobs of -j. It refuses elements that an array does not have.
func accountsOf(ctx context.Context, c *client.Client, list string) (all accounts, err error) {
	for _, word := range query.Words(list) {
		s, err := client.ParseScope(word)
		if err != nil {
			return nil, err
		}
		n := &account{Scope: s}
		if s.Elements() {
			job, err := query.Find(c)(ctx, s.Job)
			if err == nil {
				n.known = true
				_, err = c.Scope(ctx, word, func(context.Context, string) (*messages.JobStatus, error) { return job, nil })
			}
			if err != nil && exit.Code(err) != exit.NotFound {
				return nil, err
			}
		}
		all = append(all, n)
	}
	return all, nil
}

func (all accounts) has(e *slurm.Entry) (is bool) {
	number, _, _ := strings.Cut(e.ID, "_")
	array, index, element := messages.ArrayOf(e.Job)
	for _, n := range all {
		if n.Word == e.ID || n.Word == number || n.Word == e.Job ||
			n.Elements() && element && (n.Job == number || n.Job == array) && n.Has(index) {
			n.found, is = true, true
		}
	}
	return is
}

// met refuses elements of an array that neither the scheduler nor the history knows.
func (all accounts) met() error {
	for _, n := range all {
		if n.Bracketed && !n.known && !n.found {
			return client.RefuseScope(n.Word, "unknown array %q", n.Job)
		}
	}
	return nil
}
