package store

import (
	"maps"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// This file owns copies of a store in memory, as somebody who tries what becomes
// of a restored backup needs them, and what is still known of a job that was
// forgotten.

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

// Epoch is the latest leader's.
func (m *Memory) Epoch() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// Copy is a store with what is durable here now, as a backup that is brought
// back: a leader of it gets an epoch that is higher by so many than one of ours
// would get. What happens to one of the two does not reach the other.
func (m *Memory) Copy(epochs uint64) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tail) > 0 {
		panic("store: a copy is made while something is not durable")
	}
	return &Memory{
		epoch: m.epoch + epochs, holder: m.holder, arrival: m.arrival,
		// Entries and records are replaced, never changed in place.
		jobs: maps.Clone(m.jobs), nodes: maps.Clone(m.nodes), requests: maps.Clone(m.requests), tokens: maps.Clone(m.tokens),
		live: maps.Clone(m.live), finished: slices.Clone(m.finished), pruned: maps.Clone(m.pruned),
		holding: m.holding, broken: map[Rule]int{},
	}
}
