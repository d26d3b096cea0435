package store

import (
	"maps"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// This file owns the policy record of a store in memory, and the notes of what it does not know. Each step returns how
// to undo it.

// policyEntry is the policy record, and the write that made it.
type policyEntry struct {
	by     topology.Token
	record []byte
}

func (m *Memory) policy() topology.Token { return m.policies.by }

func (m *Memory) putPolicy(next policyEntry) func() {
	was := m.policies
	m.policies = next
	return func() { m.policies = was }
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

func (m *Memory) loadPolicy(l *Living) {
	if !m.policies.by.IsZero() {
		l.Policy(parsePolicy(m.policies.by, m.policies.record))
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
