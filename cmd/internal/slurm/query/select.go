package query

import (
	"context"
	"strings"
	"time"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/scope"
	"github.com/yi-json/synapse/cmd/internal/slurm"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file selects jobs as the options of squeue and scancel say, and cancels jobs.

// Words splits a list of jobs, states or users.
func Words(text string) []string {
	if text == "" {
		return nil
	}
	return scope.Split(text, ",")
}

// States parses a list of states; an empty list means those of unfinished jobs. unknown is the first word that is no
// state; empty: there is none.
func States(text string) (states []string, unknown string) {
	if strings.EqualFold(text, "all") {
		text = "PD,R,CF,CG,CD,F,CA,TO,DL,NF,PR,OOM,SE"
	}
	for _, word := range Words(text) {
		state, ok := slurm.Long(word)
		if !ok {
			return nil, word
		}
		states = append(states, state)
	}
	return states, ""
}

// failures keeps the first error, and passes all others on.
type failures struct {
	tell  func(error)
	first error
}

func (f *failures) note(err error) {
	switch {
	case err == nil:
	case f.first == nil:
		f.first = err
	default:
		f.tell(err)
	}
}

// Each calls do for each named job, and continues after a failure. It first finds all jobs, so that a refused scope
// changes nothing. It returns the first error, and tells the others.
func Each(ctx context.Context, c *client.Client, words []string, tell func(error),
	do func(*messages.JobStatus) error) error {
	var parts []string
	for _, word := range words {
		parts = append(parts, scope.Split(word, ",")...)
	}
	f := failures{tell: tell}
	all, err := c.Scoped(ctx, parts, Find(c), f.note)
	if err != nil {
		return err
	}
	for _, j := range all {
		f.note(do(j))
	}
	return f.first
}

// Select lists the jobs that the lists of a choice select. The caller has set the states.
func Select(ctx context.Context, c *client.Client, o *Choice, now time.Time, tell func(error)) (all []*slurm.Entry,
	err error) {
	if o.Me {
		who, err := c.WhoAmI(ctx, &api.WhoAmI{})
		if err != nil {
			return nil, err
		}
		o.Users = who.GetName()
	}
	o.Named = nil
	err = Each(ctx, c, Words(o.JobList), tell, func(j *messages.JobStatus) error {
		o.Named = append(o.Named, j)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if all, err = Jobs(ctx, c, o, now); err != nil || o.NodeList == "" {
		return all, err
	}
	nodes, err := slurm.Hostnames(o.NodeList)
	return OnNodes(all, nodes), err
}

// Cancel cancels a job as scancel does.
func Cancel(ctx context.Context, c *client.Client, id string) error {
	_, err := c.Cancel(ctx, &messages.Cancel{Job: id, Reason: "scancel"})
	return err
}

// CancelNamed cancels the named jobs. As in Slurm, finished jobs are ignored.
func CancelNamed(ctx context.Context, c *client.Client, words []string, tell func(error)) error {
	return Each(ctx, c, words, tell, func(j *messages.JobStatus) error {
		if j.GetRecord().GetState().Terminal() {
			return nil
		}
		return Cancel(ctx, c, j.GetRecord().GetId())
	})
}

// CancelSelected cancels the jobs of a list. A job that has ended since it was listed is ignored.
func CancelSelected(ctx context.Context, c *client.Client, all []*slurm.Entry, tell func(error)) error {
	f := failures{tell: tell}
	for _, e := range all {
		if err := Cancel(ctx, c, e.Job); !client.Is(err, messages.Code_CODE_CONFLICT) {
			f.note(err)
		}
	}
	return f.first
}
