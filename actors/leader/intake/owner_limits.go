package intake

import (
	"fmt"
	"strings"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns the limits of one owner that apply without configured queues. They limit the number of waiting jobs,
// the size of their records, and the number of UIDs. They apply to new submits only, and accepted jobs stay. Admins are
// exempt. In a cluster without identities, everyone is exempt, because all users look the same.

// Waiting counts the waiting jobs of one owner by queue, and the bytes of their records.
type Waiting struct {
	Queues map[string]int
	Bytes  int64
}

// These counters count refusals.
const (
	countLimitWaiting = "limit.waiting"
	countLimitBytes   = "limit.bytes"
)

// IsBound reports whether the limits of one owner apply to a user.
func IsBound(by *messages.Principal, exempt bool) bool { return !exempt && by.Known() != "" }

// rootOf returns a queue above all others that carries the limits of each owner.
func rootOf(l *protocol.OwnerLimits) *messages.QueueSpec {
	q := &messages.QueueSpec{}
	if l.Waiting > 0 {
		q.OwnerWaiting = &l.Waiting
	}
	return q
}

// tooManyWait returns the refusal of one more job of an owner who has reached the limit of the queue or of the cluster.
// It returns nil below the limit.
func (c *Check) tooManyWait(m Entering, t *messages.QueueTerms) *messages.SubmitReply {
	owner, has := m.GetPrincipal().GetName(), c.Waiting[m.GetPrincipal().GetName()]
	if has == nil {
		has = &Waiting{}
	}
	bound := IsBound(m.GetPrincipal(), m.GetExempt())
	if bound {
		t.Under(rootOf(&c.Owners))
	}
	switch q, n := t.OverWaiting(c.Queues, has.Queues); {
	case q.GetName() != "":
		return Reply("", messages.Code_CODE_NOT_ALLOWED, "spec.queue",
			fmt.Sprintf("%d jobs of %s wait in queue %s, which accepts %d per owner",
				n, owner, q.GetName(), q.GetOwnerWaiting()),
			"submit again after some of them have started")
	case q != nil:
		return c.overLimit(countLimitWaiting, fmt.Sprintf("%d jobs of %s wait, and at most %d per owner may wait",
			n, owner, q.GetOwnerWaiting()), "submit again after some of them have started, or cancel some")
	}
	size := int64(messages.Size(m.GetSpec()))
	if most := c.Owners.Bytes; bound && most > 0 && has.Bytes+size > most {
		return c.overLimit(countLimitBytes, fmt.Sprintf(
			"waiting jobs of %s need %s of storage, this job needs %s, and the limit per owner is %s",
			owner, inKiB(has.Bytes), inKiB(size), inKiB(most)),
			"submit again after some of them have started, cancel some, or put a large environment or command into "+
				"a file")
	}
	return nil
}

// overLimit returns the refusal of a job that exceeds a limit of its owner.
func (c *Check) overLimit(count, text, hint string) *messages.SubmitReply {
	c.Count(count)
	return Reply("", messages.Code_CODE_EXHAUSTED, "", text, hint)
}

func inKiB(bytes int64) string { return fmt.Sprintf("%d KiB", (bytes+1023)>>10) }

// The rest of this file owns access to queues with a list of owners. The list is checked when a job is submitted or
// changed. A later list does not affect accepted jobs or the elements of an accepted array. Admins may use every queue.

// maxOwnersNamed limits the owners that a refusal names.
const maxOwnersNamed = 10

// queueUser is a request for a queue with its user, as authenticated by the gateway.
type queueUser interface {
	GetPrincipal() *messages.Principal
	GetExempt() bool
	GetGroups() []string
}

// notAnOwner returns the refusal of a job whose owner may not use the queue or one of its ancestors. It returns nil if
// the owner may.
func (c *Check) notAnOwner(m queueUser, t *messages.QueueTerms) *messages.Outcome {
	name, q := m.GetPrincipal().GetName(), c.barredBy(m, t)
	if q == nil {
		return nil
	}
	hint := fmt.Sprintf("ask an admin to add %s, or a group of %s, to `owners` of queue %s", name, name, q.GetName())
	if m.GetPrincipal().Known() == "" {
		hint = "start the scheduler with --tls: without TLS every user is " + messages.Anonymous
	}
	open := c.Queues.OpenTo(name, m.GetGroups(), maxNamed+1)
	if len(open) > 0 {
		hint = fmt.Sprintf("use one of %s's queues: %s; or %s", name, someOf(open, maxNamed), hint)
	}
	return &messages.Outcome{
		Code: messages.Code_CODE_NOT_ALLOWED, Field: "spec.queue", Text: barred(name, t.Queue, q), Hint: hint,
	}
}

// ownNoMore returns the refusal of a change of a user's own job if the queue no longer admits the user. It returns nil
// if the queue does, or if the user may change the jobs of others.
func (c *Check) ownNoMore(
	m *messages.Update, rec *messages.JobRecord, t *messages.QueueTerms,
) *messages.Outcome {
	name, q := m.GetPrincipal().GetName(), c.barredBy(m, t)
	if q == nil || name != rec.Whose() {
		return nil
	}
	return &messages.Outcome{
		Code: messages.Code_CODE_NOT_ALLOWED, Field: "job", Text: barred(name, t.Queue, q),
		Hint: "cancel the job, or ask an operator to change it; the job continues unchanged",
	}
}

// barredBy returns the queue whose list lacks the user, or nil if there is none.
func (c *Check) barredBy(m queueUser, t *messages.QueueTerms) *messages.QueueSpec {
	if m.GetExempt() {
		return nil
	}
	return t.Bars(m.GetPrincipal().GetName(), m.GetGroups())
}

// barred returns a text about who may use a queue. The argument by is the queue, or an ancestor, that has the list.
func barred(name, queue string, by *messages.QueueSpec) string {
	whose := "it"
	if by.GetName() != queue {
		whose = "parent queue " + by.GetName()
	}
	return fmt.Sprintf("%s may not use queue %s: %s is only for %s", name, queue, whose,
		someOf(by.GetOwners(), maxOwnersNamed))
}

// someOf joins the first words for display.
func someOf(words []string, most int) string {
	text := strings.Join(words[:min(len(words), most)], ", ")
	if len(words) > most {
		text += " and others"
	}
	return text
}
