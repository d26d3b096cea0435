package store

import (
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns how a change enters Memory: judged by the rules, then put with
// all indexes, or not at all.

// jobEntry is one job with its attempts in the order of their tokens. It is
// never changed but replaced, so that taking a write back is putting the old
// one in its place.
type jobEntry struct {
	record   []byte
	head     Head
	attempts []attemptEntry
}

type attemptEntry struct {
	attemptHead
	record []byte
	owes   bool // some rank lacks evidence
}

// decode reads the whole job for a caller.
func (e *jobEntry) decode() (*messages.JobRecord, []*messages.AttemptRecord) {
	attempts := make([]*messages.AttemptRecord, len(e.attempts))
	for i := range e.attempts {
		attempts[i] = e.attempts[i].decode()
	}
	return decodeJob(e.record), attempts
}

func (a *attemptEntry) decode() *messages.AttemptRecord {
	record := new(messages.AttemptRecord)
	decode(a.record, record)
	return record
}

func decodeJob(data []byte) *messages.JobRecord {
	record := new(messages.JobRecord)
	decode(data, record)
	return record
}

func decodeNode(data []byte) *messages.NodeRecord {
	record := new(messages.NodeRecord)
	decode(data, record)
	return record
}

// owes tells whether any attempt lacks evidence.
func (e *jobEntry) owes() bool {
	for i := range e.attempts {
		if e.attempts[i].owes {
			return true
		}
	}
	return false
}

// find is where an attempt is, or where it would stand.
func (e *jobEntry) find(t topology.Token) (int, bool) {
	return slices.BinarySearchFunc(e.attempts, t, func(a attemptEntry, t topology.Token) int { return a.token.Compare(t) })
}

// Apply implements Store.
func (m *Memory) Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.lead(epoch); err != nil {
		return nil, err
	}
	var undo batch
	before := m.arrival
	undo = append(undo, func() { m.arrival = before })
	verdicts := make([]actors.Verdict, len(changes))
	for i := range changes {
		steps, broken := m.change(&changes[i])
		undo = append(undo, steps...)
		verdicts[i] = actors.Done
		if broken != "" {
			m.broken[broken]++
			verdicts[i] = actors.Conflict
		}
	}
	m.written(undo)
	return verdicts, nil
}

// change puts one change, or nothing and the rule that it breaks.
func (m *Memory) change(c *actors.Change) (undo batch, broken Rule) {
	if (c.Job == nil && c.Node == nil) || (c.Job == nil && len(c.Attempts) > 0) {
		return nil, RuleShape
	}
	var parts, repeats int
	var job *jobEntry
	var node []byte
	if c.Job != nil {
		parts++
		next, repeated, rule := m.judgeJob(c)
		if rule != "" {
			return nil, rule
		}
		if repeated {
			repeats++
		}
		job = next
	}
	if c.Node != nil {
		parts++
		next, repeated, rule := m.judgeNode(c.Node)
		if rule != "" {
			return nil, rule
		}
		if repeated {
			repeats++
		}
		node = next
	}
	switch repeats {
	case parts:
		return nil, ""
	case 0:
	default: // one half is there and the other is not: this write was never made here
		return nil, RuleRevision
	}
	if job != nil {
		m.arrival = max(m.arrival, job.head.Arrival)
		undo = append(undo, m.put(topology.JobID(c.Job.Id), job))
	}
	if node != nil {
		undo = append(undo, m.putNode(topology.NodeID(c.Node.Id), node))
	}
	return undo, ""
}

// judgeJob makes the entry that would replace a job's.
func (m *Memory) judgeJob(c *actors.Change) (next *jobEntry, repeated bool, broken Rule) {
	id := topology.JobID(c.Job.Id)
	was := m.jobs[id]
	var stored *Head
	next = &jobEntry{head: HeadOf(c.Job)}
	if was != nil {
		stored = &was.head
		next.attempts = slices.Clone(was.attempts)
	}
	if repeated, broken = JudgeJob(stored, c.Job); repeated || broken != "" {
		return nil, repeated, broken
	}
	if was == nil {
		if broken = m.judgeNew(id, next.head); broken != "" {
			return nil, false, broken
		}
	}
	for _, a := range c.Attempts {
		if broken = m.judgeAttempt(id, next, a); broken != "" {
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

// judgeNew: an id is used once, and so is a request.
func (m *Memory) judgeNew(id topology.JobID, head Head) Rule {
	if _, used := m.pruned[id]; used {
		return RuleID
	}
	if _, used := m.requests[request{head.Owner, head.RequestID}]; used {
		return RuleRequest
	}
	return ""
}

// judgeAttempt puts one attempt into the entry that is being made.
func (m *Memory) judgeAttempt(id topology.JobID, next *jobEntry, a *messages.AttemptRecord) Rule {
	if a.GetJob() != string(id) {
		return RuleShape
	}
	token := messages.FromToken(a.GetToken())
	at, known := next.find(token)
	var stored *messages.AttemptRecord
	if known {
		stored = next.attempts[at].decode()
	} else {
		if _, used := m.tokens[token]; used || at < len(next.attempts) {
			return RuleCommit
		}
		next.attempts = append(next.attempts, attemptEntry{})
	}
	if broken := JudgeAttempt(stored, a); broken != "" {
		return broken
	}
	next.attempts[at] = attemptEntry{
		attemptHead: attemptHead{token: token, ended: a.End != nil}, record: encode(a), owes: a.Owes(),
	}
	return ""
}

func (m *Memory) judgeNode(n *messages.NodeRecord) (data []byte, repeated bool, broken Rule) {
	var stored *messages.NodeRecord
	if was := m.nodes[topology.NodeID(n.GetId())]; was != nil {
		stored = decodeNode(was)
	}
	if repeated, broken = JudgeNode(stored, n); repeated || broken != "" {
		return nil, repeated, broken
	}
	return encode(n), false, ""
}

// putNode replaces a machine's record and returns how to take that back.
func (m *Memory) putNode(id topology.NodeID, data []byte) func() {
	was := m.nodes[id]
	m.nodes[id] = data
	return func() {
		if was == nil {
			delete(m.nodes, id)
			return
		}
		m.nodes[id] = was
	}
}

// put replaces a job in the table and all indexes (nil: takes it out) and
// returns how to take that back.
func (m *Memory) put(id topology.JobID, next *jobEntry) func() {
	was := m.jobs[id]
	m.unindex(id, was)
	m.index(id, next)
	return func() {
		m.unindex(id, next)
		m.index(id, was)
	}
}

func (m *Memory) unindex(id topology.JobID, e *jobEntry) {
	if e == nil {
		return
	}
	delete(m.jobs, id)
	delete(m.live, id)
	if e.head.RequestID != "" {
		delete(m.requests, request{e.head.Owner, e.head.RequestID})
	}
	for i := range e.attempts {
		delete(m.tokens, e.attempts[i].token)
	}
	if at, there := m.finishedAt(id, e); there {
		m.finished = slices.Delete(m.finished, at, at+1)
	}
}

func (m *Memory) index(id topology.JobID, e *jobEntry) {
	if e == nil {
		return
	}
	m.jobs[id] = e
	if !e.head.State.Terminal() || e.owes() {
		m.live[id] = struct{}{}
	}
	if e.head.RequestID != "" {
		m.requests[request{e.head.Owner, e.head.RequestID}] = id
	}
	for i := range e.attempts {
		m.tokens[e.attempts[i].token] = id
	}
	if e.head.State.Terminal() {
		at, _ := m.finishedAt(id, e)
		m.finished = slices.Insert(m.finished, at, Position{e.head.FinishedUnixMs, id})
	}
}

func (m *Memory) finishedAt(id topology.JobID, e *jobEntry) (int, bool) {
	return slices.BinarySearchFunc(m.finished, Position{e.head.FinishedUnixMs, id}, comparePositions)
}
