package store

import (
	"maps"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// This file owns copies of a store in memory, for tests of a restored backup, and the IDs of deleted jobs.

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

// Damage makes records unreadable, as a disk that lost power may. They are a job's or a node's record, the records of
// all attempts of a job, the statistics record, or the queue configuration.
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

// Epoch returns the epoch of the latest leader.
func (m *Memory) Epoch() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// Copy returns a store with the durable records of this one, like a restored backup. Its next leader gets an epoch that
// is higher by epochs than the next one here. Later changes of either store do not affect the other.
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
