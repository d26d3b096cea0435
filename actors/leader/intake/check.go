// Package intake decides whether a job is accepted, and which defaults it gets. It contains no actor. The Scheduler
// passes the present state and gets an answer.
package intake

import (
	"cmp"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file owns the checks of a new job.

// Check holds the present state that a new job is checked against.
type Check struct {
	Queues       *messages.Queues // as configured; nil: no queues are configured
	Shares       *share.Queues    // the same, as a tree
	Tree         *topology.Tree
	DefaultLimit time.Duration // for jobs without a time limit; 0: none
	Owners       protocol.OwnerLimits
	Waiting      map[string]*Waiting // by owner
	NowMs        int64               // wall clock time
	// Never returns the refusal of a job that is larger than its queue's limits ever allow. It returns nil for any other
	// job.
	Never func(by *messages.Principal, spec *messages.JobSpec) *messages.SubmitReply
	// Count is called for each refusal that operators count.
	Count func(name string)
}

// Entering is a request to accept a job: a Submit, or a DryRun of one.
type Entering interface {
	GetPrincipal() *messages.Principal
	GetSpec() *messages.JobSpec
	GetAllowInfeasible() bool
	GetExempt() bool
	GetGroups() []string
}

// Admit checks a new job. It returns the spec with the defaults that the job gets, or the refusal.
func (c *Check) Admit(m Entering) (g Given, no *messages.SubmitReply) {
	by, spec := m.GetPrincipal(), m.GetSpec()
	if spec, no = asOwner(by, spec); no != nil {
		return g, no
	}
	if no = cmp.Or(c.noQueue(spec), c.beginsTooLate(spec)); no != nil {
		return g, no
	}
	t := c.termsOf(spec)
	if no := c.notAnOwner(m, &t); no != nil {
		return g, &messages.SubmitReply{Outcome: no}
	}
	if spec, no = placed(spec, &t); no != nil {
		return g, no
	}
	if !m.GetAllowInfeasible() {
		if no = cmp.Or(c.infeasible(by, spec), c.Never(by, spec)); no != nil {
			return g, no
		}
	}
	if g, no = c.given(spec, &t); no != nil {
		return g, no
	}
	return g, c.tooManyWait(m, &t)
}

// Given is a spec with its defaults.
type Given struct {
	Spec          *messages.JobSpec
	Memory, Limit bool // the value is a default
}

func (c *Check) given(spec *messages.JobSpec, t *messages.QueueTerms) (g Given, no *messages.SubmitReply) {
	with, no := c.bounded(spec)
	if no != nil {
		return g, no
	}
	g.Spec, no = c.limited(with, t)
	g.Memory, g.Limit = with != spec, g.Spec != with
	return g, cmp.Or(no, c.missesDeadline(g.Spec))
}

// missesDeadline returns the refusal of a job that could not end before its deadline even if it started now. It returns
// nil otherwise.
func (c *Check) missesDeadline(spec *messages.JobSpec) *messages.SubmitReply {
	if spec.GetDeadlineUnixMs() > 0 && spec.TimeLimitMs == 0 {
		return Reply("", messages.Code_CODE_INVALID, "spec.time_limit_ms", "a job with a deadline needs a time limit, "+
			"because nothing else tells when it ends", "add a time limit")
	}
	if why := spec.CannotEnd(c.NowMs); why != "" {
		return Reply("", messages.Code_CODE_INVALID, "spec.deadline_unix_ms", "the job "+why,
			"choose a later deadline or a shorter time limit")
	}
	return nil
}

// infeasible returns the refusal of a gang that would not fit on the cluster even if it were idle. It returns nil if
// the gang would fit.
func (c *Check) infeasible(by *messages.Principal, spec *messages.JobSpec) *messages.SubmitReply {
	gang := GangFor(c.Tree, by, spec)
	ok, why := topology.Feasible(c.Tree, gang)
	switch {
	case ok:
		return nil
	case why.Refused:
		return Reply("", messages.Code_CODE_INFEASIBLE, "spec.user", strings.TrimPrefix(why.String(), "user: "),
			c.Tree.WayOut(gang, why))
	}
	return Reply("", messages.Code_CODE_INFEASIBLE, "spec.gang", "job can never start on this cluster: "+
		why.Words(),
		c.Tree.WayOut(gang, why))
}

// beginsTooLate returns the refusal of a job whose begin time is implausibly late. It returns nil otherwise.
func (c *Check) beginsTooLate(spec *messages.JobSpec) *messages.SubmitReply {
	if no := protocol.TooFarAhead("spec.begin_unix_ms", spec.BeginUnixMs, c.NowMs); no != nil {
		return &messages.SubmitReply{Outcome: no}
	}
	return nil
}

// termsOf returns the terms of the queue that a job names.
func (c *Check) termsOf(spec *messages.JobSpec) messages.QueueTerms {
	return c.Queues.TermsOf(spec.GetQueue())
}

// Update returns the refusal of a change that the job's queue does not allow. It returns nil if the change is allowed.
func (c *Check) Update(m *messages.Update, rec *messages.JobRecord) *messages.Outcome {
	t := c.termsOf(rec.Spec)
	no := c.ownNoMore(m, rec, &t)
	if m.SetPriority && no == nil {
		no = priorityAbove(&t, m.Priority)
	}
	if m.SetTimeLimit && no == nil {
		no = limitAbove(&t, m.TimeLimitMs)
	}
	return no
}

// Reply returns an answer to a submit.
func Reply(id topology.JobID, code messages.Code, field, text, hint string) *messages.SubmitReply {
	return &messages.SubmitReply{Job: string(id), Outcome: &messages.Outcome{Code: code, Field: field, Text: text,
		Hint: hint}}
}
