package scheduler

import (
	"fmt"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns what one owner may have in all, without anybody describing a queue: how many jobs wait, how large
// their records are, and how many uids they hold. It holds for new submits alone: what has come in stays. Admins are
// exempt, and so is everybody in a cluster without identities, where all are one.

// What is counted of refusals. CountLimitUIDs is said when a job is kept out of the queue for want of a uid.
const (
	countLimitWaiting = "limit.waiting"
	countLimitBytes   = "limit.bytes"
	CountLimitUIDs    = "limit.uids"
)

// isBound reports whether the limits of one owner hold for somebody.
func isBound(by *messages.Principal, exempt bool) bool { return !exempt && by.Known() != "" }

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
func (s *Scheduler) tooManyWait(m entering, t *messages.QueueTerms) *messages.SubmitReply {
	owner, has := m.GetPrincipal().GetName(), s.waiting[m.GetPrincipal().GetName()]
	if has == nil {
		has = &waitingOf{}
	}
	bound := isBound(m.GetPrincipal(), m.GetExempt())
	if bound {
		t.Under(rootOf(&s.p.Owners))
	}
	switch q, n := t.OverWaiting(s.queues.record.GetQueues(), has.queues); {
	case q.GetName() != "":
		return submitReply("", messages.Code_CODE_NOT_ALLOWED, "spec.queue",
			fmt.Sprintf("%d jobs of %s wait in queue %s, which takes %d of one owner",
				n, owner, q.GetName(), q.GetOwnerWaiting()),
			"wait until some of them have started")
	case q != nil:
		return s.overLimit(countLimitWaiting, fmt.Sprintf("%d jobs of %s wait, and %d of one owner may wait",
			n, owner, q.GetOwnerWaiting()), "wait until some of them have started, or cancel some")
	}
	size := int64(messages.Size(m.GetSpec()))
	if most := s.p.Owners.Bytes; bound && most > 0 && has.bytes+size > most {
		return s.overLimit(countLimitBytes, fmt.Sprintf(
			"the waiting jobs of %s take %s, this one takes %s, and those of one owner may take %s in all",
			owner, inKiB(has.bytes), inKiB(size), inKiB(most)),
			"wait until some of them have started, cancel some, or put a large environment or command into a file")
	}
	return nil
}

// overLimit is the answer to a job that is over a limit of its owner.
func (s *Scheduler) overLimit(count, text, hint string) *messages.SubmitReply {
	s.p.Host.Count(count, 1)
	return submitReply("", messages.Code_CODE_EXHAUSTED, "", text, hint)
}

func inKiB(bytes int64) string { return fmt.Sprintf("%d KiB", (bytes+1023)>>10) }
