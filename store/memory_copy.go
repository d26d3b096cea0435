package store

import (
	"maps"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// This file owns copies of a store in memory, for tests of a restored backup, and what is still known of a forgotten
// job.

// Pruned implements Store.
func (m *Memory) Pruned(id topology.JobID) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, ErrClosed
	}
	m.tail = nil
	return m.wasPruned(id), nil
}

// Damage empties records, as a disk that lost power may: a job's or a machine's own, those of all attempts of a job,
// the policy record, or the description of the queues.
func (m *Memory) Damage(table, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	bad := []byte{}
	switch e := m.jobs[topology.JobID(id)]; table {
	case "node":
		m.nodes[topology.NodeID(id)] = bad
	case "policy":
		m.policies.record = bad
	case "queues":
		m.tree.record = bad
	case "pass":
		m.passes[id] = bad
	case "job":
		next := *e
		next.record = bad
		m.jobs[topology.JobID(id)] = &next
	case "attempt":
		next := *e
		next.attempts = slices.Clone(e.attempts)
		for i := range next.attempts {
			next.attempts[i].record, next.attempts[i].last = bad, nil
		}
		m.jobs[topology.JobID(id)] = &next
	}
}

// Epoch is the epoch of the latest leader.
func (m *Memory) Epoch() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// Copy is a store with what is durable here now, like a restored backup: its next leader gets an epoch that is higher
// by epochs than ours would get. What happens to one of the two does not affect the other.
func (m *Memory) Copy(epochs uint64) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tail) > 0 {
		panic("store: a copy is made while something is not durable")
	}
	return &Memory{
		epoch: m.epoch + epochs, holder: m.holder, arrival: m.arrival, uidTurn: m.uidTurn,
		// Entries and records are replaced, never changed in place.
		jobs: maps.Clone(m.jobs), nodes: maps.Clone(m.nodes), requests: maps.Clone(m.requests), tokens: maps.Clone(m.tokens),
		live: maps.Clone(m.live), finished: slices.Clone(m.finished), pruned: maps.Clone(m.pruned),
		scripts: maps.Clone(m.scripts), passes: maps.Clone(m.passes), heads: maps.Clone(m.heads), policies: m.policies,
		tree: m.tree, unlearned: maps.Clone(m.unlearned),
		holding: m.holding, broken: map[Rule]int{},
	}
}
