package query

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/messages"
)

// This file lists jobs.

// Choice selects jobs. An empty list selects all.
type Choice struct {
	command.Choice
	NotUser string // not the jobs of this user; empty: no restriction
	// States holds Slurm's long states. An empty list selects unfinished jobs.
	States []string
	// Named holds the selected jobs; empty: all. An array selects its elements.
	Named []*messages.JobStatus
	Each  bool // list each element of an array
}

// Has reports whether a job has the selected users, names and labels.
func (o *Choice) Has(e *slurm.Entry) bool {
	return Listed(o.Users, e.User) && Listed(o.Names, e.Name) && Listed(o.Partitions, e.Partition) &&
		Listed(o.Accounts, e.Account) && Listed(o.QOS, e.QOS) && Listed(o.WCKeys, e.WCKey) &&
		(o.NotUser == "" || e.User != o.NotUser)
}

// Jobs lists the selected jobs. An array represents its waiting elements.
func Jobs(ctx context.Context, c *client.Client, o *Choice, now time.Time) (all []*slurm.Entry, err error) {
	w := &wanted{Choice: o, now: now, jobs: map[string]bool{}, arrays: map[string]bool{},
		born: map[string]map[int32]bool{}}
	for _, j := range o.Named {
		w.jobs[j.GetRecord().GetId()] = true
		w.arrays[j.GetRecord().GetSpec().GetElement().GetArray()] = true
	}
	jobs, err := c.Jobs(ctx, &messages.ListJobs{Elements: true})
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
	var shown []*messages.JobStatus
	for _, j := range jobs {
		switch way := w.way(j); {
		case way == whole:
			shown = append(shown, j)
		case way == apart:
			more, err := w.unborn(ctx, c, j)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	if err := Place(ctx, c, shown); err != nil {
		return nil, err
	}
	known := map[string]*slurm.Entry{}
	for _, j := range shown {
		e := slurm.Of(j, now.UnixMilli())
		known[e.Job] = e
		all = append(all, e)
	}
	if all, err = w.recent(ctx, c, all, known); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(x, y *slurm.Entry) int {
		waits := func(e *slurm.Entry) int { return strings.Compare(e.State, "PENDING") }
		return cmp.Or(cmp.Compare(waits(x)*waits(x), waits(y)*waits(y)), cmp.Compare(y.Priority, x.Priority),
			cmp.Compare(x.SubmitMs, y.SubmitMs))
	})
	return all, nil
}

// MinJobAge is the time for which squeue lists a finished job, as in Slurm.
const MinJobAge = 300 * time.Second

// finished reports whether Slurm's state is the state of a finished job.
func finished(state string) bool {
	return !slices.Contains([]string{"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SPECIAL_EXIT"}, state)
}

// recent adds the jobs that only the history knows, and that finished within MinJobAge. known has the other jobs by ID.
// The history also knows the nodes of finished jobs.
func (w *wanted) recent(ctx context.Context, c *client.Client, all []*slurm.Entry, known map[string]*slurm.Entry) (
	[]*slurm.Entry, error) {
	if len(w.jobs) > 0 || !slices.ContainsFunc(w.States, finished) {
		return all, nil
	}
	_, err := c.Past(ctx, &messages.History{SinceUnixMs: w.since()}, 0, func(reply *messages.HistoryReply) error {
		for _, p := range reply.GetJobs() {
			e := slurm.Past(p)
			switch listed := known[e.Job]; {
			case listed != nil && len(listed.Machines) == 0:
				listed.Machines = e.Machines
			case listed == nil && slices.Contains(w.States, e.State) && w.Has(e):
				all = append(all, e)
			}
		}
		return nil
	})
	return all, err
}

// since returns the time of MinJobAge ago.
func (w *wanted) since() int64 { return w.now.Add(-MinJobAge).UnixMilli() }

// OnNodes keeps the jobs that run on one of these nodes.
func OnNodes(all []*slurm.Entry, nodes []string) []*slurm.Entry {
	return slices.DeleteFunc(all, func(e *slurm.Entry) bool {
		return !slices.ContainsFunc(e.Machines, func(n string) bool { return slices.Contains(nodes, n) })
	})
}

// wanted is a selection of jobs, with what is known of their arrays.
type wanted struct {
	*Choice
	jobs   map[string]bool           // by ID, including elements; empty: all
	arrays map[string]bool           // arrays with named elements
	born   map[string]map[int32]bool // by array: the elements that are or were jobs
	now    time.Time
}

// named reports whether a job is selected: by itself, by its array, or as the array of named elements.
func (w *wanted) named(r *messages.JobRecord) bool {
	return len(w.jobs) == 0 || w.jobs[r.GetId()] || w.jobs[r.GetSpec().GetElement().GetArray()] || w.arrays[r.GetId()]
}

// way is the way in which a job is listed: not, as a whole, or as those elements of an array that are not jobs yet.
type way int

const (
	hidden way = iota
	whole
	apart
)

// way returns how a job is listed.
func (w *wanted) way(j *messages.JobStatus) way {
	r := j.GetRecord()
	id, over := r.GetId(), r.GetState().Terminal()
	element, array := r.GetSpec().GetElement() != nil, r.GetSpec().GetArray() != nil
	if !w.named(r) {
		return hidden
	}
	e := slurm.Of(j, w.now.UnixMilli())
	switch {
	case !w.Has(e):
	case len(w.States) > 0 && !slices.Contains(w.States, e.State) || len(w.States) == 0 && over:
	case element && e.State == "PENDING" && len(w.jobs) == 0 && !w.Each, array && j.GetCounts().GetWaiting() == 0 && !over:
	case array && !over && (w.Each || !w.jobs[id] && w.arrays[id]):
		return apart
	case array && !over && !w.jobs[id] && len(w.jobs) > 0:
	case len(w.jobs) == 0 && finished(e.State) && e.EndMs < w.since():
	default:
		return whole
	}
	return hidden
}

// unborn returns the selected elements of an array that are not jobs yet.
func (w *wanted) unborn(ctx context.Context, c *client.Client, j *messages.JobStatus) ([]*slurm.Entry, error) {
	id := j.GetRecord().GetId()
	array, err := c.Named(ctx, id)
	if client.Is(err, messages.Code_CODE_NOT_FOUND) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := slurm.Unborn(array, w.born[id], w.now.UnixMilli())
	return slices.DeleteFunc(all, func(e *slurm.Entry) bool {
		return len(w.jobs) > 0 && !w.jobs[id] && !w.jobs[e.Job]
	}), nil
}
