package store

import (
	"maps"
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the policy record of a store in memory with the notes of what it does not know, and the description of
// the queues. Each step returns how to undo it.

// singleEntry is a record of which there is one, and the write that made it.
type singleEntry struct {
	by     topology.Token
	record []byte
}

func (m *Memory) policy() topology.Token { return m.policies.by }

func (m *Memory) queues() topology.Token { return m.tree.by }

// put replaces the record.
func (e *singleEntry) put(by *messages.Token, record []byte) func() {
	was := *e
	*e = singleEntry{messages.FromToken(by), record}
	return func() { *e = was }
}

// note records that a leader is to learn from an attempt.
func (m *Memory) note(t topology.Token) func() {
	m.unlearned[t] = struct{}{}
	return func() { delete(m.unlearned, t) }
}

func (m *Memory) unnote(t topology.Token) func() {
	if _, noted := m.unlearned[t]; !noted {
		return func() {}
	}
	delete(m.unlearned, t)
	return func() { m.unlearned[t] = struct{}{} }
}

func (m *Memory) loadQueues(l *Living) {
	if record := new(messages.QueuesRecord); !m.tree.by.IsZero() {
		err := parseSingle("queues", m.tree.by, m.tree.record, record)
		l.Queues(record, err)
	}
}

func (m *Memory) loadPolicy(l *Living) {
	if !m.policies.by.IsZero() {
		record := new(messages.PolicyRecord)
		err := parseSingle("policy", m.policies.by, m.policies.record, record)
		l.Policy(record, err)
	}
	for _, t := range slices.SortedFunc(maps.Keys(m.unlearned), topology.Token.Compare) {
		id := m.tokens[t]
		e := m.jobs[id]
		at, ok := e.find(t)
		if !ok {
			continue
		}
		job, _ := parseJob(id, e.record)
		attempt, _ := e.attempts[at].read(id)
		l.Unlearned(job, attempt)
	}
}
