package store

import (
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the judgement on one change: it applies the rules to what a store has, whatever the database, and
// makes what would take its place. It must never store anything itself, so that a change is taken whole or not at all.

// lookup reads records for the judge: as they are stored, with the earlier changes of the same transaction.
type lookup interface {
	entry(topology.JobID) *jobEntry // nil: there is none
	wasPruned(topology.JobID) bool
	wasRequested(request) bool
	wasCommitted(topology.Token) bool
	machine(topology.NodeID) *messages.NodeRecord // nil: there is none that can be read
	policy() topology.Token                       // the write that made the policy record; zero: there is none
	queues() topology.Token                       // likewise of the description of the queues
	// damaged reports whether some record of the job cannot be read. It is asked only of what is to be dropped.
	damaged(topology.JobID) bool
}

// judged holds the record that a change would store, or the rule that it breaks. If both are empty, the same write is
// already stored.
type judged struct {
	job     *jobEntry
	node    []byte
	single  []byte // a record of which there is one
	policy  []byte
	queues  []byte
	learned []topology.Token // that go with the policy record
	drop    bool
	broken  Rule
}

// jobEntry is one job with its attempts in the order of their tokens. It is replaced and never changed, so that a write
// is undone by putting the old entry back.
type jobEntry struct {
	record   []byte
	head     Head
	attempts []attemptEntry
	ends     []topology.Token // of attempts that ended with the change that made it, for a leader to learn from
}

// attemptEntry is one attempt. Where only the head was looked up, because the
// change does not touch it, there is no record.
type attemptEntry struct {
	attemptHead
	record []byte
	last   *messages.AttemptRecord // record decoded, while more writes come; the leader never changes it
	owes   bool                    // some rank lacks evidence
}

// read reads the whole job for a caller.
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

// live reports whether a leader has to know of the job: it is not over, or some
// attempt lacks evidence.
func (e *jobEntry) live() bool {
	return !e.head.State.Terminal() || slices.ContainsFunc(e.attempts, func(a attemptEntry) bool { return a.owes })
}

// find returns where an attempt is, or where it would stand.
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
	return judged{broken: RuleRevision} // one half is there and the other is not: this write was never made here
}

// judgeDrop: only an operator gives up what was acknowledged, and only what cannot be read anyway.
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

// judgeJob makes the entry that would replace that of a job.
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

// judgeNew checks that an id is used once, and a request too.
func judgeNew(s lookup, id topology.JobID, head Head) Rule {
	if s.wasPruned(id) {
		return RuleID
	}
	if head.RequestID != "" && s.wasRequested(request{head.Owner, head.RequestID}) {
		return RuleRequest
	}
	return ""
}

// judgeAttempt adds one attempt to the entry that is being made.
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
