package main

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/client"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/slurm"
	"github.com/yi-json/synapse/messages"
)

// This file owns `squeue`, `scancel` and `sacct`: jobs as Slurm lists and ends them.

// choice is which jobs are meant, as squeue and scancel have it.
type choice struct {
	users, names, partitions, states, accounts, jobs string
	me, each                                         bool // each: element by element
}

// listed are the states that are meant, and all jobs that are known, elements too.
func (o *choice) listed(ctx context.Context, c *client.Client) (states []string, jobs []*messages.JobStatus,
	err error) {
	if states, err = statesOf(o.states); err == nil {
		jobs, err = c.Jobs(ctx, &messages.ListJobs{Elements: true})
	}
	return states, jobs, err
}

// entries are the jobs that live, and are meant. An array stands for its elements that wait.
func (a *app) entries(ctx context.Context, c *client.Client, o *choice) (all []*slurm.Entry, err error) {
	if o.me {
		if o.users, err = a.me(ctx, c); err != nil {
			return nil, err
		}
	}
	wanted := map[string]bool{}
	err = a.eachJob(ctx, c, listWords(o.jobs), func(j *messages.JobStatus) error {
		wanted[j.GetRecord().GetId()] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	states, jobs, err := o.listed(ctx, c)
	if err != nil {
		return nil, err
	}
	born := map[string]map[int32]bool{}
	for _, j := range jobs {
		if element := j.GetRecord().GetSpec().GetElement(); element != nil {
			if born[element.GetArray()] == nil {
				born[element.GetArray()] = map[int32]bool{}
			}
			born[element.GetArray()][element.GetIndex()] = true
		}
	}
	for _, j := range jobs {
		r := j.GetRecord()
		array, _, element := messages.ArrayOf(r.GetId())
		element = element && r.GetSpec().GetElement() != nil
		e := slurm.Of(j, time.Now().UnixMilli())
		switch {
		case len(wanted) > 0 && !wanted[r.GetId()] && !(element && wanted[array]):
		case !listed(o.users, e.User), !listed(o.names, e.Name), !listed(o.partitions, e.Partition),
			!listed(o.accounts, e.Account):
		case len(states) > 0 && !slices.Contains(states, e.State) || len(states) == 0 && r.GetState().Terminal():
		case element && e.State == "PENDING" && len(wanted) == 0 && !o.each, r.GetSpec().GetArray() != nil &&
			j.GetCounts().GetWaiting() == 0 &&
			!r.GetState().Terminal():
		case o.each && r.GetSpec().GetArray() != nil && !r.GetState().Terminal():
			whole, err := c.Job(ctx, r.GetId())
			if err != nil && codeOf(err) != exitNotFound {
				return nil, err
			}
			if err == nil {
				all = append(all, slurm.Unborn(whole, born[r.GetId()], time.Now().UnixMilli())...)
			}
		default:
			if e, err = placed(ctx, c, j, e); err != nil {
				return nil, err
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(x, y *slurm.Entry) int {
		waits := func(e *slurm.Entry) int { return strings.Compare(e.State, "PENDING") }
		return cmp.Or(cmp.Compare(waits(x)*waits(x), waits(y)*waits(y)), cmp.Compare(y.Priority, x.Priority),
			cmp.Compare(x.SubmitMs, y.SubmitMs))
	})
	return all, nil
}

// placed asks where a job runs, which lists leave out. One that is forgotten meanwhile is shown as it was listed.
func placed(ctx context.Context, c *client.Client, j *messages.JobStatus, e *slurm.Entry) (*slurm.Entry, error) {
	if j.GetTasks() == 0 || j.GetRecord().GetState() == messages.JobState_JOB_STATE_QUEUED {
		return e, nil
	}
	whole, err := c.Job(ctx, j.GetRecord().GetId())
	if err != nil && codeOf(err) != exitNotFound {
		return nil, err
	}
	if err == nil {
		e = slurm.Of(whole, time.Now().UnixMilli())
	}
	return e, nil
}

func listWords(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// statesOf reads a list of states; empty: those of jobs that live.
func statesOf(text string) (states []string, err error) {
	if strings.EqualFold(text, "all") {
		text = "PD,R,CF,CG,CD,F,CA,TO,NF,PR,OOM,SE"
	}
	for _, word := range listWords(text) {
		state, ok := slurm.Long(word)
		if !ok {
			return nil, usage("Invalid job state specified: %s", word)
		}
		states = append(states, state)
	}
	return states, nil
}

func (a *app) squeue(words []string) error {
	var o choice
	var format, long, sorted string
	var noHeader, isLong, starts, object bool
	f := slurmFlags("squeue")
	f.StringVarP(&o.users, "user", "u", "", "")
	f.StringVarP(&o.names, "name", "n", "", "")
	f.StringVarP(&o.partitions, "partition", "p", "", "")
	f.StringVarP(&o.states, "states", "t", "", "")
	f.StringVarP(&o.accounts, "account", "A", "", "")
	f.StringVarP(&o.jobs, "jobs", "j", "", "")
	f.BoolVar(&o.me, "me", false, "")
	f.StringVarP(&format, "format", "o", "", "")
	f.StringVarP(&long, "Format", "O", "", "")
	f.StringVarP(&sorted, "sort", "S", "", "")
	f.BoolVarP(&noHeader, "noheader", "h", false, "")
	f.BoolVarP(&isLong, "long", "l", false, "")
	f.BoolVarP(&o.each, "array", "r", false, "")
	f.BoolVar(&starts, "start", false, "")
	f.BoolVar(&object, "json", false, "")
	f.BoolP("all", "a", false, "")
	if err := parseSlurm(f, words); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return refusedWord(f.Arg(0))
	case starts && o.states == "":
		o.states = "PD"
	}
	usual := slurm.QueueFormat
	if isLong {
		usual = slurm.QueueLong
	}
	if starts {
		usual = slurm.QueueStarts
	}
	before, columns, err := slurm.Percent(cmp.Or(format, a.variable("SQUEUE_FORMAT"), usual), slurm.QueueFields())
	if long != "" && err == nil {
		before = ""
		columns, err = slurm.Named(long, ":", 20, slurm.QueueFields())
	}
	sorted = cmp.Or(sorted, a.variable("SQUEUE_SORT"))
	if sorted != "" && err == nil {
		err = slurm.Sort(nil, sorted)
	}
	if err != nil {
		return err
	}
	return a.with(func(ctx context.Context, c *client.Client) error {
		all, err := a.entries(ctx, c, &o)
		if err == nil && sorted != "" {
			err = slurm.Sort(all, sorted)
		}
		if err != nil {
			return err
		}
		if object {
			jobs := []map[string]any{}
			for _, e := range all {
				jobs = append(jobs, e.Object())
			}
			return a.object(map[string]any{"jobs": jobs, "warnings": []string{}, "errors": []string{}})
		}
		return table(a, !noHeader, before, columns, all)
	})
}

func (a *app) scancel(words []string) error {
	var o choice
	signal := ""
	f := slurmFlags("scancel")
	f.StringVarP(&o.users, "user", "u", "", "")
	f.StringVarP(&o.names, "name", "n", "", "")
	f.StringVar(&o.names, "jobname", "", "")
	f.StringVarP(&o.partitions, "partition", "p", "", "")
	f.StringVarP(&o.states, "state", "t", "", "")
	f.StringVarP(&o.accounts, "account", "A", "", "")
	f.BoolVar(&o.me, "me", false, "")
	f.StringVarP(&signal, "signal", "s", "", "")
	for _, so := range []string{"quiet,Q", "verbose,v", "full,f", "ctld, "} {
		name, letter, _ := strings.Cut(so, ",")
		f.BoolP(name, strings.TrimSpace(letter), false, "")
	}
	if err := parseSlurm(f, words); err != nil {
		return err
	}
	chosen := o.me || o.users+o.names+o.partitions+o.states+o.accounts != ""
	switch {
	case signal != "" && strings.TrimPrefix(strings.ToUpper(signal), "SIG") != "KILL" && signal != "9":
		return usageHint("`synapse-cli exec JOB -- kill` sends one from within",
			"--signal %s: a job is ended, and not sent a signal", signal)
	case f.NArg() == 0 && !chosen:
		return usage("No job identification provided")
	}
	return a.with(func(ctx context.Context, c *client.Client) error {
		cancel := func(id string) error {
			_, err := c.Cancel(ctx, &messages.Cancel{Job: id, Reason: "scancel"})
			return err
		}
		if f.NArg() > 0 && !chosen {
			return a.eachJob(ctx, c, f.Args(), func(j *messages.JobStatus) error {
				if j.GetRecord().GetState().Terminal() {
					return nil // as there: what is over is left as it is
				}
				return cancel(j.GetRecord().GetId())
			})
		}
		o.jobs = strings.Join(f.Args(), ",")
		all, err := a.entries(ctx, c, &o)
		fails := failures{a: a}
		fails.note(err)
		for _, e := range all {
			if err := cancel(e.Job); codeOf(err) != exitConflict || err == nil {
				fails.note(err)
			}
		}
		return fails.first
	})
}

// accountFlags are those of sacct.
type accountFlags struct {
	choice
	format, since, until                string
	noHeader, allUsers, closed, parsed2 bool
	object                              bool
}

func (a *app) sacct(words []string) error {
	var o accountFlags
	f := slurmFlags("sacct")
	f.StringVarP(&o.jobs, "jobs", "j", "", "")
	f.StringVarP(&o.users, "user", "u", "", "")
	f.StringVar(&o.names, "name", "", "")
	f.StringVarP(&o.partitions, "partition", "r", "", "")
	f.StringVarP(&o.accounts, "accounts", "A", "", "")
	f.StringVarP(&o.states, "state", "s", "", "")
	f.StringVarP(&o.format, "format", "o", "", "")
	f.StringVarP(&o.since, "starttime", "S", "", "")
	f.StringVarP(&o.until, "endtime", "E", "", "")
	f.BoolVarP(&o.noHeader, "noheader", "n", false, "")
	f.BoolVarP(&o.allUsers, "allusers", "a", false, "")
	f.BoolVarP(&o.closed, "parsable", "p", false, "")
	f.BoolVarP(&o.parsed2, "parsable2", "P", false, "")
	f.BoolVar(&o.object, "json", false, "")
	f.BoolP("allocations", "X", false, "") // steps are not kept, so there is nothing else
	if err := parseSlurm(f, words); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return refusedWord(f.Arg(0))
	}
	columns, err := slurm.Named(cmp.Or(o.format, a.variable("SACCT_FORMAT"), slurm.AccountUsual), "%", 12,
		slurm.AccountFields())
	if err != nil {
		return err
	}
	if o.parsed2 || o.closed {
		for i := range columns {
			columns[i].Width, columns[i].Cut, columns[i].After = 0, false, "|"
		}
		if o.parsed2 {
			columns[len(columns)-1].After = ""
		}
	} else {
		for i := range columns {
			columns[i].After = " "
		}
	}
	return a.with(func(ctx context.Context, c *client.Client) error {
		all, err := a.accounts(ctx, c, &o)
		if err != nil {
			return err
		}
		if o.object {
			jobs := []map[string]any{}
			for _, e := range all {
				jobs = append(jobs, e.Object())
			}
			return a.object(map[string]any{"jobs": jobs})
		}
		return table(a, !o.noHeader, "", columns, all)
	})
}

// ago is so long before now, as sacct has it.
var ago = regexp.MustCompile(`^now-(\d+)([mhd])[a-z]*$`)

// accounts are the jobs of a time: those that live, and those that are over, the oldest first. Without a time it is
// today, of whoever asks; a job that is named is looked for in all of the past.
func (a *app) accounts(ctx context.Context, c *client.Client, o *accountFlags) ([]*slurm.Entry, error) {
	now := time.Now()
	sinceMs := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location()).UnixMilli()
	untilMs := int64(0)
	var err error
	if o.jobs != "" {
		sinceMs = 0
	}
	for _, t := range []struct {
		flag, text string
		to         *int64
	}{{"starttime", o.since, &sinceMs}, {"endtime", o.until, &untilMs}} {
		if t.text == "" || t.text == "now" {
			continue
		}
		if *t.to, err = moment(t.flag, ago.ReplaceAllString(t.text, "$1$2"), now.UnixMilli()); err != nil {
			return nil, err
		}
	}
	if o.users == "" && !o.allUsers && o.jobs == "" {
		if o.users, err = a.me(ctx, c); err != nil {
			return nil, err
		}
	}
	states, jobs, err := o.listed(ctx, c)
	if err != nil {
		return nil, err
	}
	var all []*slurm.Entry
	past := map[string]bool{}
	keep := func(e *slurm.Entry) {
		number, _, _ := strings.Cut(e.ID, "_")
		if listed(o.users, e.User) && listed(o.names, e.Name) && listed(o.partitions, e.Partition) &&
			listed(o.choice.accounts, e.Account) &&
			(o.jobs == "" || listed(o.jobs, e.ID) || listed(o.jobs, number) || listed(o.jobs, e.Job)) &&
			(len(states) == 0 || slices.Contains(states, e.State)) {
			all = append(all, e)
		}
	}
	_, err = c.Past(ctx, &messages.History{SinceUnixMs: sinceMs, UntilUnixMs: untilMs}, 0,
		func(reply *messages.HistoryReply) error {
			for _, p := range reply.GetJobs() {
				past[p.GetId()] = true
				past[p.GetId()] = true // it may have ended since it was listed
				keep(slurm.Past(p))
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if !past[j.GetRecord().GetId()] && !j.GetRecord().GetState().Terminal() && untilMs == 0 {
			e, err := placed(ctx, c, j, slurm.Of(j, now.UnixMilli()))
			if err != nil {
				return nil, err
			}
			keep(e)
		}
	}
	slices.SortStableFunc(all, func(x, y *slurm.Entry) int { return cmp.Compare(x.SubmitMs, y.SubmitMs) })
	return all, nil
}
