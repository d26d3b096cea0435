package intake

import (
	"fmt"
	"strings"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns what one owner may have in all, without anybody describing a queue: how many jobs wait, how large
// their records are, and how many uids they hold. It holds for new submits alone: what has come in stays. Admins are
// exempt, and so is everybody in a cluster without identities, where all are one.

// Waiting counts the waiting jobs of one owner by queue, and the bytes of their records.
type Waiting struct {
	Queues map[string]int
	Bytes  int64
}

// What is counted of refusals.
const (
	countLimitWaiting = "limit.waiting"
	countLimitBytes   = "limit.bytes"
)

// IsBound reports whether the limits of one owner hold for somebody.
func IsBound(by *messages.Principal, exempt bool) bool { return !exempt && by.Known() != "" }

// rootOf returns the queue above all others: the limits of each owner are those of a queue.
func rootOf(l *protocol.OwnerLimits) *messages.QueueSpec {
	q := &messages.QueueSpec{}
	if l.Waiting > 0 {
		q.OwnerWaiting = &l.Waiting
	}
	return q
}

// tooManyWait is the answer to one more job of an owner who has as much waiting as their queue takes, or the cluster;
// nil: it may come in.
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

// overLimit is the answer to a job that is over a limit of its owner.
func (c *Check) overLimit(count, text, hint string) *messages.SubmitReply {
	c.Count(count)
	return Reply("", messages.Code_CODE_EXHAUSTED, "", text, hint)
}

func inKiB(bytes int64) string { return fmt.Sprintf("%d KiB", (bytes+1023)>>10) }

// What follows owns who may use a queue that has a list of owners. The list is asked when a job is submitted or
// changed. A later list does not touch jobs that were admitted, nor the elements of an array that was. Admins may use
// every queue.

// maxOwnersNamed is how many owners of a queue are named to somebody who is not one of them.
const maxOwnersNamed = 10

// queueUser is somebody who asks something of a queue, as the gateway knows them.
type queueUser interface {
	GetPrincipal() *messages.Principal
	GetExempt() bool
	GetGroups() []string
}

// notAnOwner is the answer to a job of somebody whom its queue, or one above it, does not admit; nil: they do.
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

// ownNoMore is the answer to a change of one's own job whose queue does not admit its owner any more; nil: it does, or
// somebody changes it whose right is to change the jobs of others.
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

// barredBy is the queue whose owners do not have who asks; nil: there is none.
func (c *Check) barredBy(m queueUser, t *messages.QueueTerms) *messages.QueueSpec {
	if m.GetExempt() {
		return nil
	}
	return t.Bars(m.GetPrincipal().GetName(), m.GetGroups())
}

// barred says who may use a queue in place of somebody. By is the queue, or one above it, that has the list.
func barred(name, queue string, by *messages.QueueSpec) string {
	whose := "it"
	if by.GetName() != queue {
		whose = "parent queue " + by.GetName()
	}
	return fmt.Sprintf("%s may not use queue %s: %s is only for %s", name, queue, whose,
		someOf(by.GetOwners(), maxOwnersNamed))
}

// someOf are the first of these words, for people.
func someOf(words []string, most int) string {
	text := strings.Join(words[:min(len(words), most)], ", ")
	if len(words) > most {
		text += " and others"
	}
	return text
}
