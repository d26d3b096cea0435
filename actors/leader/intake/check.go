// Package intake decides whether a job may come in, and what it is given that it does not ask for. Nothing here is an
// actor: the Scheduler says what holds at the moment, and is answered.
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

// This file owns what a new job is held against.

// Check is all that a new job is held against, as it is at the moment.
type Check struct {
	Queues       *messages.Queues // as they are described; nil: nobody has described any
	Tree         *share.Queues    // likewise
	Fabric       *topology.Fabric
	DefaultLimit time.Duration // of a job that names none; 0: none
	Owners       protocol.OwnerLimits
	Waiting      map[string]*Waiting // by owner
	NowMs        int64               // on the wall clock
	// Never answers a job that is larger than its queue's limits ever allow; nil: it is not.
	Never func(by *messages.Principal, spec *messages.JobSpec) *messages.SubmitReply
	// Count is told of each refusal that operators count.
	Count func(name string)
}

// Entering is a job that somebody wants to bring: a Submit, or a DryRun of one.
type Entering interface {
	GetPrincipal() *messages.Principal
	GetSpec() *messages.JobSpec
	GetAllowInfeasible() bool
	GetExempt() bool
	GetGroups() []string
}

// Admit holds a new job against all that is asked of one, and answers it with what it does not ask for and gets.
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

// Given is a spec with what it does not ask for and gets all the same.
type Given struct {
	Spec          *messages.JobSpec
	Memory, Limit bool // which of them is a default
}

func (c *Check) given(spec *messages.JobSpec, t *messages.QueueTerms) (g Given, no *messages.SubmitReply) {
	with, no := c.bounded(spec)
	if no != nil {
		return g, no
	}
	g.Spec, no = c.limited(with, t)
	g.Memory, g.Limit = with != spec, g.Spec != with
	return g, no
}

// infeasible is the answer to a gang that no machines here could ever hold; nil: they could.
func (c *Check) infeasible(by *messages.Principal, spec *messages.JobSpec) *messages.SubmitReply {
	gang := GangFor(c.Fabric, by, spec)
	ok, why := topology.Feasible(c.Fabric, gang)
	switch {
	case ok:
		return nil
	case why.Refused:
		return Reply("", messages.Code_CODE_INFEASIBLE, "spec.user", strings.TrimPrefix(why.String(), "user: "),
			c.Fabric.WayOut(gang, why))
	}
	return Reply("", messages.Code_CODE_INFEASIBLE, "spec.gang", "job can never start on this cluster: "+
		why.Words(),
		c.Fabric.WayOut(gang, why))
}

// beginsTooLate is the answer to a job that is to begin when nobody can mean; nil: it may.
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

// Update answers a change of a job that is not to be had in its queue; nil: it may be.
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

// Reply is an answer to a submit.
func Reply(id topology.JobID, code messages.Code, field, text, hint string) *messages.SubmitReply {
	return &messages.SubmitReply{Job: string(id), Outcome: &messages.Outcome{Code: code, Field: field, Text: text,
		Hint: hint}}
}
