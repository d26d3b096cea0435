package intake

import (
	"fmt"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns what one owner may have in all, without anybody describing a queue: how many jobs wait, how large
// their records are, and how many uids they hold. It holds for new submits alone: what has come in stays. Admins are
// exempt, and so is everybody in a cluster without identities, where all are one.

// Waiting is what one owner has waiting: jobs by queue, and the bytes of their records.
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
			fmt.Sprintf("%d jobs of %s wait in queue %s, which takes %d of one owner",
				n, owner, q.GetName(), q.GetOwnerWaiting()),
			"wait until some of them have started")
	case q != nil:
		return c.overLimit(countLimitWaiting, fmt.Sprintf("%d jobs of %s wait, and %d of one owner may wait",
			n, owner, q.GetOwnerWaiting()), "wait until some of them have started, or cancel some")
	}
	size := int64(messages.Size(m.GetSpec()))
	if most := c.Owners.Bytes; bound && most > 0 && has.Bytes+size > most {
		return c.overLimit(countLimitBytes, fmt.Sprintf(
			"the waiting jobs of %s take %s, this one takes %s, and those of one owner may take %s in all",
			owner, inKiB(has.Bytes), inKiB(size), inKiB(most)),
			"wait until some of them have started, cancel some, or put a large environment or command into a file")
	}
	return nil
}

// overLimit is the answer to a job that is over a limit of its owner.
func (c *Check) overLimit(count, text, hint string) *messages.SubmitReply {
	c.Count(count)
	return Reply("", messages.Code_CODE_EXHAUSTED, "", text, hint)
}

func inKiB(bytes int64) string { return fmt.Sprintf("%d KiB", (bytes+1023)>>10) }
