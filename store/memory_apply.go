package store

import (
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns how a change is stored in Memory: judged, then stored with all indexes, or not at all.

// Apply implements Store.
func (m *Memory) Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.led(epoch, m.holder); err != nil {
		return nil, err
	}
	return m.apply(changes), nil
}

func (m *Memory) apply(changes []actors.Change) []actors.Verdict {
	var undo batch
	arrival, turn := m.arrival, m.uidTurn
	undo = append(undo, func() { m.arrival, m.uidTurn = arrival, turn })
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
	return verdicts
}

// change stores one change, or returns the rule that it breaks and stores nothing.
func (m *Memory) change(c *actors.Change) (undo batch, broken Rule) {
	j := judge(m, c)
	if j.job != nil {
		m.arrival = max(m.arrival, j.job.head.Arrival)
		m.uidTurn = max(m.uidTurn, j.job.head.UIDTurn)
		undo = append(undo, m.put(topology.JobID(c.Job.Id), j.job))
		for _, t := range j.job.ends {
			undo = append(undo, m.note(t))
		}
	}
	if j.node != nil {
		undo = append(undo, m.putNode(topology.NodeID(c.Node.Id), j.node))
	}
	if j.policy != nil {
		undo = append(undo, m.policies.put(c.Policy.WrittenBy, j.policy))
		for _, t := range j.learned {
			undo = append(undo, m.unnote(t))
		}
	}
	if j.queues != nil {
		undo = append(undo, m.tree.put(c.Queues.WrittenBy, j.queues))
	}
	if j.drop {
		undo = append(undo, m.forget(c.Drop))
	}
	return undo, j.broken
}

func (m *Memory) entry(id topology.JobID) *jobEntry { return m.jobs[id] }

func (m *Memory) wasPruned(id topology.JobID) bool {
	_, used := m.pruned[id]
	return used
}

func (m *Memory) wasRequested(r request) bool {
	_, used := m.requests[r]
	return used
}

func (m *Memory) wasCommitted(t topology.Token) bool {
	_, used := m.tokens[t]
	return used
}

func (m *Memory) machine(id topology.NodeID) *messages.NodeRecord {
	if was := m.nodes[id]; was != nil {
		record, _ := parseNode(id, was)
		return record
	}
	return nil
}

func (m *Memory) damaged(id topology.JobID) bool {
	_, _, err := m.jobs[id].read(id)
	return err != nil
}

// forget keeps only the used ID of a job, and returns a function that undoes it.
func (m *Memory) forget(id topology.JobID) func() {
	var undo batch
	for i := range m.jobs[id].attempts {
		undo = append(undo, m.unnote(m.jobs[id].attempts[i].token))
	}
	undo = append(undo, m.put(id, nil))
	m.pruned[id] = struct{}{}
	return func() {
		delete(m.pruned, id)
		for _, step := range undo {
			step()
		}
	}
}

// putNode replaces a node's record and returns a function that undoes it.
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

// put replaces a job in the table and all indexes, or removes it if next is nil. It returns a function that undoes it.
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
	if e.live() {
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
