package store

import (
	"maps"
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the statistics record of a store in memory, the notes of attempts that it does not include, and the
// queue configuration. Each write returns a function that undoes it.

// singleEntry is a record of which there is only one, and the write that created it.
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

// note records that a leader must still learn from an attempt.
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
