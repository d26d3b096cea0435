package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file owns `apply` and `cancel` with job files. Both find a job by its name among the caller's unfinished jobs.

// plan is what `apply` does with one job of a file.
type plan struct {
	spec   *messages.JobSpec
	live   *messages.JobStatus // nil: there is no unfinished job of this name
	change *messages.Update    // nil: no value differs
}

// applyJobs submits, updates or leaves each job of a file. It plans all jobs before it changes any.
func (a *app) applyJobs(ctx context.Context, c *client.Client, specs []*messages.JobSpec,
	sources []map[string]jobfile.Source, dryRun bool) error {
	owner, err := c.Name(ctx)
	if err != nil {
		return err
	}
	var plans []plan
	s := &submission{}
	var fresh []*messages.JobSpec
	for i, spec := range specs {
		p, err := a.planned(ctx, c, spec, owner)
		if err != nil {
			return err
		}
		plans = append(plans, p)
		if p.live == nil {
			beginHere(spec)
			fresh, s.sources = append(fresh, spec), append(s.sources, sources[i])
		}
	}
	if !dryRun {
		if err := a.fillSecrets(s, fresh); err != nil {
			return err
		}
	}
	for _, p := range plans {
		if err := a.carryOut(ctx, c, s, p, dryRun); err != nil {
			return err
		}
	}
	return nil
}

// mine returns the caller's unfinished jobs with a name.
func mine(ctx context.Context, c *client.Client, owner, name string) ([]*messages.JobStatus, error) {
	all, err := c.Jobs(ctx, &messages.ListJobs{Name: messages.NameOf(name), Owner: owner})
	return slices.DeleteFunc(all, func(j *messages.JobStatus) bool {
		r := j.GetRecord()
		return over(j) || r.GetSpec().Called() != name || r.GetOwner().GetName() != "" && r.Whose() != owner
	}), err
}

// planned compares a job of the file with the unfinished job of its name.
func (a *app) planned(ctx context.Context, c *client.Client, spec *messages.JobSpec, owner string) (plan, error) {
	p := plan{spec: spec}
	name := spec.Called()
	live, err := mine(ctx, c, owner, name)
	if err != nil || len(live) == 0 {
		return p, err
	}
	if len(live) > 1 {
		return p, &exit.Failure{Code: exit.Conflict,
			Text: fmt.Sprintf("%d unfinished jobs of %s have the name %s: %s", len(live), owner, name,
				someOf(idsOf(live))),
			Hint: "cancel all but one, or give the job of the file another name"}
	}
	p.live = live[0]
	if err := c.Precede(ctx, spec, c.Named); err != nil {
		return p, err
	}
	id := p.live.GetRecord().GetId()
	wanted, has := withDefaults(spec, p.live.GetRecord(), a.style.NowMs), withoutPast(p.live, a.style.NowMs)
	p.change = changeOf(id, wanted, has)
	has.Priority, has.PriorityZero, has.TimeLimitMs, has.BeginUnixMs = wanted.Priority, wanted.PriorityZero,
		wanted.TimeLimitMs, wanted.BeginUnixMs
	has.DeadlineUnixMs = wanted.DeadlineUnixMs
	if has.Array != nil && wanted.Array != nil {
		has.Array.Most = wanted.Array.Most
	}
	if keys := jobfile.Differ(wanted, has); len(keys) > 0 {
		return p, &exit.Failure{Code: exit.Conflict,
			Text: fmt.Sprintf("job %s (%s) cannot be changed to the file: %s differs", name, id, strings.Join(keys, ", ")),
			Hint: fmt.Sprintf("run `%s cancel %s` and apply the file again, or give the job of the file another name; "+
				"only priority, timeLimit, begin and the limit of an array can be changed", a.name, id)}
	}
	return p, nil
}

// withDefaults returns the job of a file with the values that the scheduler filled in for the live job.
func withDefaults(spec *messages.JobSpec, live *messages.JobRecord, nowMs int64) *messages.JobSpec {
	wanted := proto.Clone(spec.Bare()).(*messages.JobSpec)
	has := live.GetSpec()
	if wanted.GetPriority() == 0 && !wanted.GetPriorityZero() { // the file leaves the priority to the queue
		wanted.Priority, wanted.PriorityZero = has.GetPriority(), has.GetPriorityZero()
	}
	wanted.PriorityZero = wanted.GetPriority() == 0 && (wanted.GetPriorityZero() || has.GetPriorityZero())
	if live.GetLimitByDefault() && wanted.GetTimeLimitMs() == 0 {
		wanted.TimeLimitMs = has.GetTimeLimitMs()
	}
	if live.GetMemoryByShare() {
		for _, pair := range [][2]*messages.Resources{{wanted.GetEach(), has.GetEach()},
			{wanted.GetGang().GetTotal(), has.GetGang().GetTotal()}} {
			if pair[0] != nil && pair[0].MemoryBytes == 0 {
				pair[0].MemoryBytes = pair[1].GetMemoryBytes()
			}
		}
	}
	if id, _, _ := strings.Cut(wanted.GetUser(), ":"); id == messages.UserMe {
		wanted.User = live.Whose() + strings.TrimPrefix(wanted.GetUser(), messages.UserMe)
	}
	if wanted.GetBeginUnixMs() <= nowMs {
		wanted.BeginUnixMs = 0
	}
	return wanted
}

// withoutPast returns the spec of a live job without an earliest start that has passed.
func withoutPast(live *messages.JobStatus, nowMs int64) *messages.JobSpec {
	has := proto.Clone(live.GetRecord().GetSpec().Bare()).(*messages.JobSpec)
	if has.GetBeginUnixMs() <= nowMs {
		has.BeginUnixMs = 0
	}
	return has
}

// changeOf returns the request that changes a live job to the job of the file, or nil if nothing differs.
func changeOf(id string, wanted, has *messages.JobSpec) *messages.Update {
	u := &messages.Update{
		Job: id, Priority: wanted.GetPriority(), TimeLimitMs: wanted.GetTimeLimitMs(),
		BeginUnixMs: wanted.GetBeginUnixMs(), ArrayMost: wanted.GetArray().GetMost(),
		SetPriority:    wanted.GetPriority() != has.GetPriority(),
		SetTimeLimit:   wanted.GetTimeLimitMs() != has.GetTimeLimitMs(),
		SetBegin:       wanted.GetBeginUnixMs() != has.GetBeginUnixMs(),
		DeadlineUnixMs: wanted.GetDeadlineUnixMs(), SetDeadline: wanted.GetDeadlineUnixMs() != has.GetDeadlineUnixMs(),
		SetArrayMost: wanted.GetArray() != nil && wanted.GetArray().GetMost() != has.GetArray().GetMost(),
	}
	if !u.SetPriority && !u.SetTimeLimit && !u.SetBegin && !u.SetDeadline && !u.SetArrayMost {
		return nil
	}
	return u
}

// carryOut makes the change that was planned, or says what it would be.
func (a *app) carryOut(ctx context.Context, c *client.Client, s *submission, p plan, dryRun bool) error {
	id := p.live.GetRecord().GetId()
	switch {
	case p.live == nil && dryRun:
		return a.dryRun(ctx, c, s, []*messages.JobSpec{p.spec})
	case p.live == nil:
		_, err := a.order(ctx, c, s, p.spec)
		return err
	case p.change == nil:
		return a.data("Job %s unchanged: %s", id, p.spec.Called())
	case dryRun:
		return a.data("dry run: job %s would be updated: %s", id, changeWords(p.change))
	}
	done, err := a.updates(p.change)(ctx, c, p.live)
	if err != nil {
		return err
	}
	return a.data("Job %s %s", id, done)
}

// changeWords names the values that a request changes.
func changeWords(u *messages.Update) string {
	var words []string
	for _, one := range []struct {
		set  bool
		word string
	}{{u.GetSetPriority(), "priority"}, {u.GetSetTimeLimit(), "timeLimit"}, {u.GetSetBegin(), "begin"},
		{u.GetSetDeadline(), "deadline"}, {u.GetSetArrayMost(), "array"}} {
		if one.set {
			words = append(words, one.word)
		}
	}
	return strings.Join(words, ", ")
}

// inFiles returns the unfinished jobs of the caller that have the names of the jobs in the files.
func (a *app) inFiles(ctx context.Context, c *client.Client, files []string) (ids []string, err error) {
	var names []string
	for _, file := range files {
		name, data, err := input(file, a.stdin)
		if err != nil {
			return nil, err
		}
		specs, err := jobsOf(name, data)
		if err != nil {
			return nil, err
		}
		for _, spec := range specs {
			names = append(names, spec.Called())
		}
	}
	owner, err := c.Name(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		live, err := mine(ctx, c, owner, name)
		if err != nil {
			return nil, err
		}
		if len(live) == 0 {
			return nil, &exit.Failure{Code: exit.NotFound, Text: fmt.Sprintf("no unfinished job of %s has the name %s",
				owner, name), Hint: "run `" + a.name + " get jobs --me` for a list"}
		}
		ids = append(ids, idsOf(live)...)
	}
	return ids, nil
}
