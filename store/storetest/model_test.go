package storetest

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the model of a store: its content and answers, in the simplest form. It must not use the code of
// package store that it is compared with, except for its types. It keeps complete records, replaces them, and never
// changes one.

type model struct {
	jobs      map[string]modelJob
	pruned    map[string]bool
	nodes     map[string]*messages.NodeRecord
	policy    *messages.PolicyRecord
	queues    *messages.QueuesRecord
	unlearned map[topology.Token]bool
	arrival   uint64
	uidTurn   uint64
	scripts   map[string]modelScript
	passes    map[string]*messages.PassRecord
	heads     map[string]store.AuditHead
}

// modelJob is a job with its attempts in the order in which they were committed.
type modelJob struct {
	record   *messages.JobRecord
	attempts []*messages.AttemptRecord
	bad      bool // its record was damaged
}

type modelScript struct {
	text string
	idle bool
}

func newModel() *model {
	return &model{
		jobs: map[string]modelJob{}, pruned: map[string]bool{}, nodes: map[string]*messages.NodeRecord{},
		unlearned: map[topology.Token]bool{}, scripts: map[string]modelScript{},
		passes: map[string]*messages.PassRecord{}, heads: map[string]store.AuditHead{},
	}
}

// clone returns an independent copy of the model.
func (m *model) clone() *model {
	c := *m
	c.jobs, c.pruned, c.nodes = maps.Clone(m.jobs), maps.Clone(m.pruned), maps.Clone(m.nodes)
	c.unlearned = maps.Clone(m.unlearned)
	return &c
}

// change applies one change, or returns the rule that it breaks and applies nothing.
func (m *model) change(c actors.Change) store.Rule {
	switch {
	case c.Drop != "":
		return m.drop(string(c.Drop))
	case c.Policy != nil:
		done, rule := later(m.policy.GetWrittenBy(), c.Policy.WrittenBy)
		if done {
			m.policy = c.Policy
			for _, t := range c.Learned {
				delete(m.unlearned, t)
			}
		}
		return rule
	case c.Queues != nil:
		done, rule := later(m.queues.GetWrittenBy(), c.Queues.WrittenBy)
		if done {
			m.queues = c.Queues
		}
		return rule
	}
	return m.records(c)
}

// later compares two writes of a record of which there is only one.
func later(stored, next *messages.Token) (done bool, rule store.Rule) {
	s, n := messages.FromToken(stored), messages.FromToken(next)
	switch {
	case s == n:
		return false, ""
	case s.Epoch > n.Epoch || s.Epoch == n.Epoch && s.Counter > n.Counter:
		return false, store.RuleRevision
	}
	return true, ""
}

func (m *model) drop(id string) store.Rule {
	j, known := m.jobs[id]
	switch {
	case m.pruned[id]:
		return ""
	case !known:
		return store.RuleRevision
	case !j.bad:
		return store.RuleWhole
	}
	m.forget(id)
	return ""
}

func (m *model) forget(id string) {
	for _, a := range m.jobs[id].attempts {
		delete(m.unlearned, messages.FromToken(a.Token))
	}
	delete(m.jobs, id)
	m.pruned[id] = true
}

// records writes a job, a node, or both together. A change whose first half is already stored was never made here.
func (m *model) records(c actors.Change) store.Rule {
	var parts, repeats int
	var next modelJob
	if c.Job != nil {
		parts++
		var repeated bool
		var rule store.Rule
		if next, repeated, rule = m.job(c); rule != "" {
			return rule
		} else if repeated {
			repeats++
		}
	}
	if c.Node != nil {
		parts++
		was := m.nodes[c.Node.Id]
		switch {
		case was != nil && was.Revision == c.Node.Revision && proto.Equal(was.WrittenBy, c.Node.WrittenBy):
			repeats++
		case c.Node.Revision != was.GetRevision()+1:
			return store.RuleRevision
		}
	}
	if repeats == parts {
		return ""
	}
	if repeats > 0 {
		return store.RuleRevision
	}
	if c.Job != nil {
		m.put(c, next)
	}
	if c.Node != nil {
		m.nodes[c.Node.Id] = c.Node
	}
	return ""
}

// put stores a job, and notes the attempts that end with this change after they have run.
func (m *model) put(c actors.Change, next modelJob) {
	was := m.jobs[c.Job.Id]
	for _, a := range c.Attempts {
		before := was.attempt(messages.FromToken(a.Token))
		if before.GetEnd() == nil && a.GetEnd().GetRanMs() > 0 {
			m.unlearned[messages.FromToken(a.Token)] = true
		}
	}
	m.jobs[c.Job.Id] = next
	m.arrival, m.uidTurn = max(m.arrival, c.Job.Arrival), max(m.uidTurn, c.Job.UidTurn)
}

func (j modelJob) attempt(t topology.Token) *messages.AttemptRecord {
	for _, a := range j.attempts {
		if messages.FromToken(a.Token) == t {
			return a
		}
	}
	return nil
}

// job returns the job after a change.
func (m *model) job(c actors.Change) (next modelJob, repeated bool, rule store.Rule) {
	was, known := m.jobs[c.Job.Id]
	o, n := was.record, c.Job
	switch {
	case known && o.Revision == n.Revision && proto.Equal(o.WrittenBy, n.WrittenBy):
		return next, true, ""
	case n.Revision != o.GetRevision()+1:
		return next, false, store.RuleRevision
	case known && (o.Owner.Name != n.Owner.Name || o.RequestId != n.RequestId):
		return next, false, store.RuleIdentity
	case known && o.State.Terminal() &&
		(o.State != n.State || o.ExitCode != n.ExitCode || o.FinishedUnixMs != n.FinishedUnixMs):
		return next, false, store.RuleTerminal
	case !known && m.pruned[n.Id]:
		return next, false, store.RuleID
	case !known && n.RequestId != "" && m.requested(n.Owner.Name, n.RequestId) != "":
		return next, false, store.RuleRequest
	}
	next = modelJob{record: n, attempts: slices.Clone(was.attempts)}
	for _, a := range c.Attempts {
		if rule := m.attempt(&next, a); rule != "" {
			return next, false, rule
		}
	}
	open := 0
	for _, a := range next.attempts {
		if a.End == nil {
			open++
		}
	}
	switch {
	case open > 1:
		return next, false, store.RuleCommit
	case open > 0 && n.State.Terminal():
		return next, false, store.RuleTerminal
	}
	return next, false, ""
}

// attempt adds one attempt to the new job.
func (m *model) attempt(of *modelJob, a *messages.AttemptRecord) store.Rule {
	was := of.attempt(messages.FromToken(a.Token))
	if was == nil {
		if m.committed(messages.FromToken(a.Token)) || len(of.attempts) > 0 &&
			!messages.FromToken(of.attempts[len(of.attempts)-1].Token).Less(messages.FromToken(a.Token)) {
			return store.RuleCommit
		}
		if a.End != nil || slices.ContainsFunc(a.Places, func(p *messages.Place) bool { return p.Exit != nil }) {
			return store.RuleEnd
		}
		of.attempts = append(of.attempts, a)
		return ""
	}
	switch {
	case !proto.Equal(decided(was), decided(a)):
		return store.RuleDecision
	case was.End != nil && !proto.Equal(was.End, a.End):
		return store.RuleEnd
	}
	for i, p := range was.Places {
		if p.Exit != nil && a.Places[i].Exit == nil {
			return store.RuleEvidence
		}
	}
	of.attempts[slices.Index(of.attempts, was)] = a
	return ""
}

// decided returns the decisions of an attempt's COMMIT.
func decided(a *messages.AttemptRecord) *messages.AttemptRecord {
	d := attempt(a, func(a *messages.AttemptRecord) { a.End, a.StartedUnixMs = nil, 0 })
	for _, p := range d.Places {
		p.Exit = nil
	}
	return d
}

func (m *model) committed(t topology.Token) bool {
	for _, j := range m.jobs { //order: whether there is any
		if j.attempt(t) != nil {
			return true
		}
	}
	return false
}

// requested returns the job that a request created, or the empty string if none is still known.
func (m *model) requested(owner, id string) string {
	for _, j := range m.jobs { //order: there is at most one
		if id != "" && j.record.Owner.Name == owner && j.record.RequestId == id {
			return j.record.Id
		}
	}
	return ""
}

// owes reports whether an exit of a rank is unknown.
func owes(a *messages.AttemptRecord) bool {
	return slices.ContainsFunc(a.Places, func(p *messages.Place) bool { return p.Exit == nil })
}

func (j modelJob) live() bool {
	return !j.record.State.Terminal() || slices.ContainsFunc(j.attempts, owes)
}

// load returns the state that a leader needs.
func (m *model) load() *actors.Loaded {
	l := &actors.Loaded{Policy: m.policy, Queues: m.queues, Arrival: m.arrival, UIDTurn: m.uidTurn}
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if j := m.jobs[id]; j.live() {
			l.Jobs = append(l.Jobs, j.record)
		}
		for _, a := range m.jobs[id].attempts {
			if m.unlearned[messages.FromToken(a.Token)] {
				l.Unlearned = append(l.Unlearned, actors.Ended{Job: m.jobs[id].record, Attempt: a})
			}
		}
	}
	slices.SortStableFunc(l.Jobs, func(a, b *messages.JobRecord) int { return cmp.Compare(a.Arrival, b.Arrival) })
	for _, r := range l.Jobs {
		all := m.jobs[r.Id].attempts
		for i, a := range all {
			if owes(a) || i == len(all)-1 {
				l.Attempts = append(l.Attempts, a)
			}
		}
	}
	slices.SortFunc(l.Unlearned, func(a, b actors.Ended) int {
		return messages.FromToken(a.Attempt.Token).Compare(messages.FromToken(b.Attempt.Token))
	})
	for _, id := range slices.Sorted(maps.Keys(m.nodes)) {
		l.Nodes = append(l.Nodes, m.nodes[id])
	}
	return l
}

// finished returns the finished jobs, in the order in which they finished.
func (m *model) finished() []modelJob {
	var over []modelJob
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if j := m.jobs[id]; j.record.State.Terminal() {
			over = append(over, j)
		}
	}
	slices.SortStableFunc(over, func(a, b modelJob) int {
		return cmp.Compare(a.record.FinishedUnixMs, b.record.FinishedUnixMs)
	})
	return over
}

// history returns the matching finished jobs, newest first.
func (m *model) history(p store.Past) []modelJob {
	var fit []modelJob
	for _, j := range slices.Backward(m.finished()) {
		r := j.record
		at := r.FinishedUnixMs
		before := p.Before == store.Position{} || at < p.Before.FinishedUnixMs ||
			at == p.Before.FinishedUnixMs && r.Id < string(p.Before.Job)
		if before && at >= p.SinceUnixMs && (p.Owner == "" || r.Owner.Name == p.Owner) &&
			(p.Queue == "" || r.Spec.Queue == p.Queue) && (p.Name == "" || r.Spec.Name == p.Name) &&
			(len(p.States) == 0 || slices.Contains(p.States, r.State)) {
			fit = append(fit, j)
		}
	}
	return fit
}

// prune deletes jobs that finished before a time and have no unconfirmed exits. It returns their number.
func (m *model) prune(before int64, limit int) (gone int) {
	for _, j := range m.finished() {
		if j.record.FinishedUnixMs < before && !j.live() && gone < limit {
			m.forget(j.record.Id)
			gone++
		}
	}
	return gone
}

// pruneScripts deletes the scripts that no job has named at two consecutive calls.
func (m *model) pruneScripts() (gone int) {
	for digest, s := range maps.Clone(m.scripts) { //order: each is judged alone
		named := false
		for _, j := range m.jobs { //order: whether there is any
			named = named || j.record.Spec.GetScript().GetDigest() == digest
		}
		if m.scripts[digest] = (modelScript{s.text, !named}); s.idle && !named {
			delete(m.scripts, digest)
			gone++
		}
	}
	return gone
}
