package store

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// Memory is a store that lives as long as its process. It is the reference for every other store, and the simulator
// crashes it.
//
// Records are kept as bytes, so a caller's changes to a record never reach the stored one.
//
// By default every write is durable at once. After HoldSync, writes form a tail that Sync makes durable and Crash
// drops.
type Memory struct {
	mu sync.Mutex

	epoch    uint64
	holder   string
	arrival  uint64
	uidTurn  uint64
	jobs     map[topology.JobID]*jobEntry
	nodes    map[topology.NodeID][]byte
	requests map[request]topology.JobID
	tokens   map[topology.Token]topology.JobID
	live     map[topology.JobID]struct{} // not finished or with unconfirmed exits: the jobs that Load returns
	finished []Position                  // of all finished jobs, sorted
	pruned   map[topology.JobID]struct{} // their IDs stay used
	scripts  map[string]*scriptEntry
	passes   map[string][]byte // tokens of users, sealed
	heads    map[string]AuditHead
	policies singleEntry
	tree     singleEntry // the queue configuration
	// unlearned holds the ended attempts that the statistics record does not include.
	unlearned map[topology.Token]struct{}

	holding bool
	tail    []batch // not yet synced, oldest first
	broken  map[Rule]int
	closed  bool
}

// batch undoes one unsynced transaction, step by step, latest step first.
type batch []func()

type request struct{ owner, id string }

// NewMemory returns an empty store without a leader.
func NewMemory() *Memory {
	return &Memory{
		jobs: map[topology.JobID]*jobEntry{}, nodes: map[topology.NodeID][]byte{},
		requests: map[request]topology.JobID{}, tokens: map[topology.Token]topology.JobID{},
		live: map[topology.JobID]struct{}{}, pruned: map[topology.JobID]struct{}{},
		scripts: map[string]*scriptEntry{}, passes: map[string][]byte{}, heads: map[string]AuditHead{},
		unlearned: map[topology.Token]struct{}{}, broken: map[Rule]int{},
	}
}

// HoldSync makes Apply and Prune return before their writes are durable, until Sync. Lead and every read sync first: an
// epoch fences others off only when it is durable, and a record that was read must not be undone.
func (m *Memory) HoldSync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holding = true
}

// Sync makes everything written so far durable.
func (m *Memory) Sync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tail = nil
}

// Crash drops all unsynced writes.
func (m *Memory) Crash() { m.CrashKeeping(0) }

// CrashKeeping drops the unsynced writes except for the first transactions, because a disk may have written more than
// it acknowledged. It never keeps a part of a transaction, or a later one without the earlier.
func (m *Memory) CrashKeeping(transactions int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.tail) > transactions {
		last := m.tail[len(m.tail)-1]
		m.tail = m.tail[:len(m.tail)-1]
		for i := len(last) - 1; i >= 0; i-- {
			last[i]()
		}
	}
	m.tail = nil
}

// Broken counts the refused changes by rule.
func (m *Memory) Broken() map[Rule]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.broken)
}

// Lead implements Store.
func (m *Memory) Lead(holder string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, ErrClosed
	}
	m.tail = nil
	m.epoch++
	m.holder = holder
	return m.epoch, nil
}

// led checks that this epoch and this holder still lead.
func (m *Memory) led(epoch uint64, holder string) error {
	switch {
	case m.closed:
		return ErrClosed
	case epoch == 0 || epoch != m.epoch || holder != m.holder:
		return ErrDeposed
	}
	return nil
}

// Load implements Store.
func (m *Memory) Load(epoch uint64) (*actors.Loaded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.led(epoch, m.holder); err != nil { // this process is the only one: see Held
		return nil, err
	}
	return m.load(), nil
}

func (m *Memory) load() *actors.Loaded {
	m.tail = nil
	living := NewLiving()
	for _, id := range slices.Sorted(maps.Keys(m.live)) {
		e := m.jobs[id]
		record, err := parseJob(id, e.record)
		living.Job(id, e.head.Owner, record, err)
		for i := range e.attempts {
			if a := &e.attempts[i]; i == len(e.attempts)-1 || a.owes {
				record, err := a.read(id)
				living.Attempt(id, record, err)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.nodes)) {
		record, err := parseNode(id, m.nodes[id])
		living.Node(id, record, err)
	}
	m.loadPolicy(living)
	m.loadQueues(living)
	out := living.Loaded(m.arrival, m.uidTurn)
	return &out
}

// Prune implements Store.
func (m *Memory) Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.led(epoch, m.holder); err != nil {
		return 0, err
	}
	return m.prune(finishedBeforeUnixMs, limit), nil
}

func (m *Memory) prune(finishedBeforeUnixMs int64, limit int) int {
	var gone []topology.JobID
	for _, p := range m.finished {
		if p.FinishedUnixMs >= finishedBeforeUnixMs || len(gone) >= limit {
			break
		}
		if _, owes := m.live[p.Job]; !owes {
			gone = append(gone, p.Job)
		}
	}
	// The positions are removed in one step, because each single removal would move all the others.
	drop := make(map[topology.JobID]bool, len(gone))
	for _, id := range gone {
		drop[id] = true
	}
	m.finished = slices.DeleteFunc(m.finished, func(p Position) bool { return drop[p.Job] })
	var undo batch
	for _, id := range gone {
		undo = append(undo, m.forget(id))
	}
	m.written(undo)
	return len(gone)
}

// written ends a transaction.
func (m *Memory) written(undo batch) {
	if m.holding {
		m.tail = append(m.tail, undo)
	}
}

// Job implements Store.
func (m *Memory) Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read(id)
}

// Requested implements Store.
func (m *Memory) Requested(owner, requestID string) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read(m.requests[request{owner, requestID}])
}

func (m *Memory) read(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	if m.closed {
		return nil, nil, ErrClosed
	}
	m.tail = nil
	e := m.jobs[id]
	if e == nil {
		return nil, nil, ErrNotFound
	}
	return e.read(id)
}

// Finished implements Store.
func (m *Memory) Finished(after Position, limit int) ([]*messages.JobRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	m.tail = nil
	at := sort.Search(len(m.finished), func(i int) bool { return comparePositions(m.finished[i], after) > 0 })
	var out []*messages.JobRecord
	for ; at < len(m.finished) && len(out) < limit; at++ {
		id := m.finished[at].Job
		record, err := parseJob(id, m.jobs[id].record)
		if err != nil {
			return nil, err
		}
		out = append(out, record)
	}
	return out, nil
}

// History implements Store.
func (m *Memory) History(past Past) (Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Page{}, ErrClosed
	}
	m.tail = nil
	g, before := past.Gather(), past.From()
	at := sort.Search(len(m.finished), func(i int) bool { return comparePositions(m.finished[i], before) >= 0 }) - 1
	for more := past.Look > 0; more && at >= 0 && m.finished[at].FinishedUnixMs >= past.SinceUnixMs; at-- {
		data := m.jobs[m.finished[at].Job].record
		record, err := parseJob(m.finished[at].Job, data)
		more = g.Read(m.finished[at], record, err, len(data))
	}
	jobs := g.Jobs()
	for i, id := range jobs {
		if !g.Takes(i) {
			return g.Page(i), nil
		}
		for j := range m.jobs[id].attempts {
			a := &m.jobs[id].attempts[j]
			record, err := a.read(id)
			g.Attempt(i, record, err, len(a.record))
		}
	}
	return g.Page(len(jobs)), nil
}

// Close implements Store. Unsynced writes are lost, as with a database.
func (m *Memory) Close() error {
	m.Crash()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func comparePositions(a, b Position) int {
	return cmp.Or(cmp.Compare(a.FinishedUnixMs, b.FinishedUnixMs), cmp.Compare(a.Job, b.Job))
}

// encode returns the stored form, which is deterministic: equal records have equal bytes.
func encode(m messages.Message) []byte {
	return messages.Bytes(m)
}
