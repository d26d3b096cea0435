package intake

import (
	"fmt"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file owns who may use a queue that has a list of owners. The list is asked when a job is submitted or changed. A
// later list does not touch jobs that were admitted, nor the elements of an array that was. Admins may use every queue.

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
		hint = "without TLS everybody is " + messages.Anonymous + ": start the scheduler with --tls"
	}
	open := c.Queues.OpenTo(name, m.GetGroups(), maxNamed+1)
	if len(open) > 0 {
		hint = fmt.Sprintf("%s may use %s; or %s", name, someOf(open, maxNamed), hint)
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
		Hint: "the job stays as it is and is not stopped; you may cancel it, and an operator may change it",
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
		whose = "queue " + by.GetName() + " above it"
	}
	return fmt.Sprintf("%s may not use queue %s: %s is for %s", name, queue, whose,
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
