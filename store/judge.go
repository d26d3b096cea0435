package store

import (
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the judgement of one change: it applies the rules to the stored records of any database, and computes
// the new records. It stores nothing itself, so a change is stored completely or not at all.

// lookup reads stored records for the judge, including the earlier changes of the same transaction.
type lookup interface {
	entry(topology.JobID) *jobEntry // nil: none
	wasPruned(topology.JobID) bool
	wasRequested(request) bool
	wasCommitted(topology.Token) bool
	machine(topology.NodeID) *messages.NodeRecord // nil: none, or unreadable
	policy() topology.Token                       // the write of the statistics record; zero: none
	queues() topology.Token                       // the write of the queue configuration; zero: none
	// damaged reports whether a record of the job is unreadable. It is called only for jobs to be dropped.
	damaged(topology.JobID) bool
}

// judged holds the record that a change would store, or the rule that it breaks. If both are empty, the same write is
// already stored.
type judged struct {
	job     *jobEntry
	node    []byte
	single  []byte // a record of which there is only one
	policy  []byte
	queues  []byte
	learned []topology.Token // attempts that the statistics record includes
	drop    bool
	broken  Rule
}

// jobEntry is one job with its attempts in the order of their tokens. It is replaced and never changed, so a write is
// undone by restoring the old entry.
type jobEntry struct {
	record   []byte
	head     Head
	attempts []attemptEntry
	ends     []topology.Token // attempts that ended with the change, for the statistics
}

// attemptEntry is one attempt. It has no record if the change does not affect it and only its head was looked up.
type attemptEntry struct {
	attemptHead
	record []byte
	last   *messages.AttemptRecord // decoded record, kept for later writes; never changed
	owes   bool                    // an exit of a rank is unconfirmed
}

// read returns the entire job.
func (e *jobEntry) read(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	attempts := make([]*messages.AttemptRecord, len(e.attempts))
	record, err := parseJob(id, e.record)
	for i := range e.attempts {
		if err == nil {
			attempts[i], err = e.attempts[i].read(id)
		}
	}
	return record, attempts, err
}

func (a *attemptEntry) read(job topology.JobID) (*messages.AttemptRecord, error) {
	return parseAttempt(job, a.token, a.record)
}

// live reports whether a leader needs the job: it has not finished, or an exit of an attempt is unconfirmed.
func (e *jobEntry) live() bool {
	return !e.head.State.Terminal() || slices.ContainsFunc(e.attempts, func(a attemptEntry) bool { return a.owes })
}

// find returns the index of an attempt, or the index at which to insert it.
func (e *jobEntry) find(t topology.Token) (int, bool) {
	return slices.BinarySearchFunc(e.attempts, t, func(a attemptEntry, t topology.Token) int { return a.token.Compare(t) })
}

// judge applies the rules to one change.
func judge(s lookup, c *actors.Change) judged {
	alone := c.Job == nil && c.Node == nil && len(c.Attempts) == 0
	switch {
	case c.Drop != "" && alone && c.Policy == nil && c.Queues == nil:
		return judgeDrop(s, c.Drop)
	case c.Policy != nil && alone && c.Drop == "" && c.Queues == nil:
		return judgePolicy(s.policy(), c)
	case c.Queues != nil && alone && c.Drop == "" && c.Policy == nil && len(c.Learned) == 0:
		return judgeQueues(s.queues(), c)
	case alone, c.Drop != "", c.Policy != nil, c.Queues != nil, len(c.Learned) > 0, c.Job == nil && len(c.Attempts) > 0:
		return judged{broken: RuleShape}
	}
	var parts, repeats int
	var out judged
	if c.Job != nil {
		parts++
		next, repeated, rule := judgeJob(s, c)
		if rule != "" {
			return judged{broken: rule}
		}
		if repeated {
			repeats++
		}
		out.job = next
	}
	if c.Node != nil {
		parts++
		repeated, rule := JudgeNode(s.machine(topology.NodeID(c.Node.Id)), c.Node)
		switch {
		case rule != "":
			return judged{broken: rule}
		case repeated:
			repeats++
		case readable(c.Node) != nil:
			return judged{broken: RuleReadable}
		default:
			out.node = encode(c.Node)
		}
	}
	switch repeats {
	case parts:
		return judged{}
	case 0:
		return out
	}
	return judged{broken: RuleRevision} // one half is stored and the other is not, so this write was never made here
}

// judgeDrop allows a job to be dropped only if it is unreadable, because acknowledged records may be given up only by
// an operator.
func judgeDrop(s lookup, id topology.JobID) judged {
	switch {
	case s.wasPruned(id):
		return judged{}
	case s.entry(id) == nil:
		return judged{broken: RuleRevision}
	case !s.damaged(id):
		return judged{broken: RuleWhole}
	}
	return judged{drop: true}
}

// judgeJob returns the entry that would replace a job's entry.
func judgeJob(s lookup, c *actors.Change) (next *jobEntry, repeated bool, broken Rule) {
	id := topology.JobID(c.Job.Id)
	was := s.entry(id)
	var stored *Head
	next = &jobEntry{head: headOf(c.Job)}
	if was != nil {
		stored = &was.head
		next.attempts = slices.Clone(was.attempts)
	}
	if repeated, broken = JudgeJob(stored, c.Job); repeated || broken != "" {
		return nil, repeated, broken
	}
	if readable(c.Job) != nil {
		return nil, false, RuleReadable
	}
	if was == nil {
		if broken = judgeNew(s, id, next.head); broken != "" {
			return nil, false, broken
		}
	}
	for _, a := range c.Attempts {
		if broken = judgeAttempt(s, id, next, a); broken != "" {
			return nil, false, broken
		}
	}
	heads := make([]attemptHead, len(next.attempts))
	for i := range heads {
		heads[i] = next.attempts[i].attemptHead
	}
	if broken = judgeAttempts(next.head.State, heads); broken != "" {
		return nil, false, broken
	}
	next.record = encode(c.Job)
	return next, false, ""
}

// judgeNew checks that an ID and a request are used only once.
func judgeNew(s lookup, id topology.JobID, head Head) Rule {
	if s.wasPruned(id) {
		return RuleID
	}
	if head.RequestID != "" && s.wasRequested(request{head.Owner, head.RequestID}) {
		return RuleRequest
	}
	return ""
}

// judgeAttempt adds one attempt to the new entry.
func judgeAttempt(s lookup, id topology.JobID, next *jobEntry, a *messages.AttemptRecord) Rule {
	if a.GetJob() != string(id) {
		return RuleShape
	}
	token := messages.FromToken(a.GetToken())
	at, known := next.find(token)
	var stored *messages.AttemptRecord
	if known {
		if stored = next.attempts[at].last; stored == nil {
			var err error
			if stored, err = next.attempts[at].read(id); err != nil {
				return RuleDamaged
			}
		}
	} else {
		if s.wasCommitted(token) || at < len(next.attempts) {
			return RuleCommit
		}
		next.attempts = append(next.attempts, attemptEntry{})
	}
	if broken := JudgeAttempt(stored, a); broken != "" {
		return broken
	}
	if readable(a) != nil {
		return RuleReadable
	}
	entry := attemptEntry{attemptHead: attemptHead{token: token, ended: a.End != nil}, record: encode(a), owes: a.Owes()}
	if stored.GetEnd() == nil && learns(a) {
		next.ends = append(next.ends, token)
	}
	if !entry.ended || entry.owes {
		entry.last = a
	}
	next.attempts[at] = entry
	return ""
}
