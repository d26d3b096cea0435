package slurmcmd

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/scope"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file implements `squeue`.

// choice holds the selection of jobs for squeue and scancel.
type choice struct {
	users, names, partitions, states, accounts, jobs, nodes, qos, wckeys string
	me, others, each                                                     bool   // each: one line per element
	self                                                                 string // the caller, if others is set
}

// has reports whether a job has the selected users, names and labels.
func (o *choice) has(e *slurm.Entry) bool {
	return listed(o.users, e.User) && listed(o.names, e.Name) && listed(o.partitions, e.Partition) &&
		listed(o.accounts, e.Account) && listed(o.qos, e.QOS) && listed(o.wckeys, e.WCKey) &&
		(!o.others || e.User != o.self)
}

// listed returns the selected states, and all known jobs including elements.
func (o *choice) listed(ctx context.Context, c *client.Client) (states []string, jobs []*messages.JobStatus,
	err error) {
	if states, err = statesOf(o.states); err == nil {
		jobs, err = c.Jobs(ctx, &messages.ListJobs{Elements: true})
	}
	return states, jobs, err
}

// entries returns the selected unfinished jobs. An array represents its waiting elements.
func (a *CLI) entries(ctx context.Context, c *client.Client, o *choice) (all []*slurm.Entry, err error) {
	if o.me || o.others {
		if o.self, err = a.me(ctx, c); err != nil {
			return nil, err
		}
	}
	if o.me {
		o.users = o.self
	}
	w := &wanted{jobs: map[string]bool{}, arrays: map[string]bool{}, born: map[string]map[int32]bool{}}
	err = a.eachJob(ctx, c, listWords(o.jobs), func(j *messages.JobStatus) error {
		w.jobs[j.GetRecord().GetId()] = true
		w.arrays[j.GetRecord().GetSpec().GetElement().GetArray()] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	states, jobs, err := o.listed(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if element := j.GetRecord().GetSpec().GetElement(); element != nil {
			if w.born[element.GetArray()] == nil {
				w.born[element.GetArray()] = map[int32]bool{}
			}
			w.born[element.GetArray()][element.GetIndex()] = true
		}
	}
	for _, j := range jobs {
		more, err := w.entries(ctx, c, o, states, j)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	if all, err = a.recent(ctx, c, o, w, states, all); err != nil {
		return nil, err
	}
	if all, err = onNodes(all, o.nodes); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(x, y *slurm.Entry) int {
		waits := func(e *slurm.Entry) int { return strings.Compare(e.State, "PENDING") }
		return cmp.Or(cmp.Compare(waits(x)*waits(x), waits(y)*waits(y)), cmp.Compare(y.Priority, x.Priority),
			cmp.Compare(x.SubmitMs, y.SubmitMs))
	})
	return all, nil
}

// minJobAge is the time for which squeue lists a finished job, as in Slurm.
const minJobAge = 300 * time.Second

// recent removes the jobs that finished before minJobAge, except named ones, and adds later ones that only the history
// knows.
func (a *CLI) recent(ctx context.Context, c *client.Client, o *choice, w *wanted, states []string, all []*slurm.Entry) (
	[]*slurm.Entry, error) {
	finished := func(state string) bool {
		return !slices.Contains([]string{"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SPECIAL_EXIT"}, state)
	}
	if len(w.jobs) > 0 || !slices.ContainsFunc(states, finished) {
		return all, nil
	}
	since := time.Now().Add(-minJobAge).UnixMilli()
	known := map[string]bool{}
	all = slices.DeleteFunc(all, func(e *slurm.Entry) bool {
		known[e.Job] = true
		return finished(e.State) && e.EndMs < since
	})
	_, err := c.Past(ctx, &messages.History{SinceUnixMs: since}, 0, func(reply *messages.HistoryReply) error {
		for _, p := range reply.GetJobs() {
			e := slurm.Past(p)
			if !known[e.Job] && slices.Contains(states, e.State) && o.has(e) {
				all = append(all, e)
			}
		}
		return nil
	})
	return all, err
}

// onNodes keeps the jobs that run on one of these nodes; an empty list keeps all.
func onNodes(all []*slurm.Entry, list string) ([]*slurm.Entry, error) {
	if list == "" {
		return all, nil
	}
	nodes, err := slurm.Hostnames(list)
	return slices.DeleteFunc(all, func(e *slurm.Entry) bool {
		return !slices.ContainsFunc(e.Machines, func(n string) bool { return slices.Contains(nodes, n) })
	}), err
}

// wanted holds the named jobs, and what is known of their arrays.
type wanted struct {
	jobs   map[string]bool           // by ID, including elements; empty: all
	arrays map[string]bool           // arrays with named elements
	born   map[string]map[int32]bool // by array: the elements that are or were jobs
}

// has reports whether a job is selected: by itself, by its array, or as the array of named elements.
func (w *wanted) has(r *messages.JobRecord) bool {
	return len(w.jobs) == 0 || w.jobs[r.GetId()] || w.jobs[r.GetSpec().GetElement().GetArray()] || w.arrays[r.GetId()]
}

// entries returns the lines of one job: none, one, or one for each element of an array that is not a job yet.
func (w *wanted) entries(ctx context.Context, c *client.Client, o *choice, states []string, j *messages.JobStatus) (
	all []*slurm.Entry, err error) {
	r := j.GetRecord()
	id, over := r.GetId(), r.GetState().Terminal()
	element, array := r.GetSpec().GetElement() != nil, r.GetSpec().GetArray() != nil
	e := slurm.Of(j, time.Now().UnixMilli())
	switch {
	case !w.has(r), !o.has(e):
	case len(states) > 0 && !slices.Contains(states, e.State) || len(states) == 0 && over:
	case element && e.State == "PENDING" && len(w.jobs) == 0 && !o.each, array && j.GetCounts().GetWaiting() == 0 && !over:
	case array && !over && (o.each || !w.jobs[id] && w.arrays[id]):
		whole, err := c.Named(ctx, id)
		if err != nil && exit.Code(err) != exit.NotFound {
			return nil, err
		}
		if err == nil {
			all = slurm.Unborn(whole, w.born[id], time.Now().UnixMilli())
		}
		return slices.DeleteFunc(all, func(e *slurm.Entry) bool {
			return len(w.jobs) > 0 && !w.jobs[id] && !w.jobs[e.Job]
		}), nil
	case array && !over && !w.jobs[id] && len(w.jobs) > 0:
	default:
		if e, err = placed(ctx, c, j, e); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// placed reads the nodes of a job, which lists omit. If the job is unknown by now, its list entry is used.
func placed(ctx context.Context, c *client.Client, j *messages.JobStatus, e *slurm.Entry) (*slurm.Entry, error) {
	if j.GetTasks() == 0 || j.GetRecord().GetState() == messages.JobState_JOB_STATE_QUEUED {
		return e, nil
	}
	whole, err := c.Named(ctx, j.GetRecord().GetId())
	if err != nil && exit.Code(err) != exit.NotFound {
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
	return scope.Split(text, ",")
}

// statesOf parses a list of states; an empty list means those of unfinished jobs.
func statesOf(text string) (states []string, err error) {
	if strings.EqualFold(text, "all") {
		text = "PD,R,CF,CG,CD,F,CA,TO,DL,NF,PR,OOM,SE"
	}
	for _, word := range listWords(text) {
		state, ok := slurm.Long(word)
		if !ok {
			return nil, exit.Usage("Invalid job state specified: %s", word)
		}
		states = append(states, state)
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
	var format, long, sorted string
	var noHeader, isLong, starts, object bool
	every := 0
	f := slurmFlags("squeue")
	f.IntVarP(&every, "iterate", "i", 0, "")
	f.VarP(slurm.List{To: &o.users}, "user", "u", "")
	f.VarP(slurm.List{To: &o.names}, "name", "n", "")
	f.VarP(slurm.List{To: &o.partitions}, "partition", "p", "")
	f.VarP(slurm.List{To: &o.states}, "states", "t", "")
	f.VarP(slurm.List{To: &o.accounts}, "account", "A", "")
	f.VarP(slurm.List{To: &o.jobs}, "jobs", "j", "")
	f.VarP(slurm.List{To: &o.nodes}, "nodelist", "w", "")
	f.VarP(slurm.List{To: &o.qos}, "qos", "q", "")
	f.BoolVar(&o.me, "me", false, "")
	f.BoolVar(&o.others, "notme", false, "")
	f.StringVarP(&format, "format", "o", "", "")
	f.StringVarP(&long, "Format", "O", "", "")
	f.StringVarP(&sorted, "sort", "S", "", "")
	f.BoolVarP(&noHeader, "noheader", "h", false, "")
	f.BoolVarP(&isLong, "long", "l", false, "")
	f.BoolVarP(&o.each, "array", "r", false, "")
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
	case starts && o.states == "":
		o.states = "PD"
	}
	if err := interval(f, every); err != nil {
		return err
	}
	before, columns, err := a.queueColumns(format, long, isLong, starts)
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
		return table(a, !noHeader, before, columns, all)
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
