package store

import (
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns a database transaction from the lookup to the rows. A database only looks up and writes. The judge,
// which it shares with the store in memory, decides what is written.
//
// All lookups precede all writes, each kind in one statement. A query per row would spend most of the time on round
// trips.

// Request names one submit of an owner.
type Request struct{ Owner, ID string }

// Draft is one transaction before it is written. A database looks up Jobs, Requests, Tokens and Nodes, passes the rows
// to the Found methods, calls Judge, and writes Rows.
type Draft struct {
	// Jobs, Nodes and Tokens are the keys that the changes affect, each once.
	Jobs   []topology.JobID
	Nodes  []topology.NodeID
	Tokens []topology.Token
	// Requests are those that may create a job.
	Requests []Request
	// Drops lists the jobs to be dropped. The database reads all records of each.
	Drops []topology.JobID
	// Policy reports that the changes affect the statistics record.
	Policy bool
	// Queues reports that the changes affect the queue configuration.
	Queues bool

	changes  []actors.Change
	jobs     map[topology.JobID]*draftJob
	machines map[topology.NodeID]*draftNode
	requests map[request]bool        // whether it is used
	tokens   map[topology.Token]bool // whether it is used
	records  map[topology.Token]bool // whether a change writes this attempt
	ends     []topology.Token        // of attempts to learn from
	learned  []topology.Token        // of attempts that the statistics include
	arrival  uint64                  // the highest among the written jobs
	uidTurn  uint64                  // the highest among the written jobs
	policies draftSingle
	tree     draftSingle
	broken   []Rule
}

type draftJob struct {
	entry  *jobEntry
	queue  string
	script string
	pruned bool
	known  bool // it is stored
	dirty  bool
	bad    bool // a record of it is unreadable
	drop   bool
}

type draftNode struct {
	record *messages.NodeRecord
	data   []byte // its new record
	known  bool
}

// JobRow is a job to be stored. Insert means that it is not stored yet.
type JobRow struct {
	Insert bool
	ID     topology.JobID
	Head   Head
	Queue  string
	Script string // digest of its script
	Live   bool
	Sealed []byte
}

// AttemptRow is an attempt to be stored.
type AttemptRow struct {
	Insert bool
	Job    topology.JobID
	Token  topology.Token
	Ended  bool
	Owes   bool
	Sealed []byte
}

// NodeRow is a node's record to be stored.
type NodeRow struct {
	Insert bool
	ID     topology.NodeID
	Sealed []byte
}

// Rows holds the rows that a transaction writes. The attempts of a job are in the order of their tokens, so that one
// ends before the next begins.
type Rows struct {
	Jobs     []JobRow
	Attempts []AttemptRow
	Nodes    []NodeRow
	Policy   *SingleRow
	Queues   *SingleRow
	Ends     []topology.Token // to be noted, because the statistics do not include them
	Learned  []topology.Token // their notes are removed, because the statistics include them
	Drops    []topology.JobID // only the used ID of these jobs is kept
	Arrival  uint64           // the highest among the jobs
	UIDTurn  uint64           // the highest among the jobs
}

// NewDraft returns a transaction with these changes.
func NewDraft(changes []actors.Change) *Draft {
	d := &Draft{
		changes: changes, jobs: map[topology.JobID]*draftJob{}, machines: map[topology.NodeID]*draftNode{},
		requests: map[request]bool{}, tokens: map[topology.Token]bool{}, records: map[topology.Token]bool{},
	}
	for i := range changes {
		d.lookUp(&changes[i])
	}
	return d
}

// lookUp omits keys that no database can store. The judge refuses them.
func (d *Draft) lookUp(c *actors.Change) {
	if id := topology.JobID(c.Job.GetId()); isKey(string(id)) && d.jobs[id] == nil {
		d.jobs[id] = &draftJob{}
		d.Jobs = append(d.Jobs, id)
	}
	if r := (request{c.Job.GetOwner().GetName(), c.Job.GetRequestId()}); c.Job.GetRevision() == 1 && isKey(r.id) &&
		isText(r.owner) {
		if _, asked := d.requests[r]; !asked {
			d.requests[r] = false
			d.Requests = append(d.Requests, Request{r.owner, r.id})
		}
	}
	for _, a := range c.Attempts {
		if t := messages.FromToken(a.GetToken()); fits(t) {
			if _, asked := d.tokens[t]; !asked {
				d.tokens[t] = false
				d.Tokens = append(d.Tokens, t)
			}
		}
	}
	if isKey(string(c.Drop)) && d.jobs[c.Drop] == nil {
		d.jobs[c.Drop] = &draftJob{}
		d.Jobs, d.Drops = append(d.Jobs, c.Drop), append(d.Drops, c.Drop)
	}
	d.Policy = d.Policy || c.Policy != nil
	d.Queues = d.Queues || c.Queues != nil
	if id := topology.NodeID(c.Node.GetId()); isKey(string(id)) && d.machines[id] == nil {
		d.machines[id] = &draftNode{}
		d.Nodes = append(d.Nodes, id)
	}
}

// Judge decides on each change, given the result of those before it.
func (d *Draft) Judge() []actors.Verdict {
	verdicts := make([]actors.Verdict, len(d.changes))
	for i := range d.changes {
		c := &d.changes[i]
		j := judge(d, c)
		verdicts[i] = actors.Done
		if j.broken != "" {
			d.broken = append(d.broken, j.broken)
			verdicts[i] = actors.Conflict
			continue
		}
		if j.job != nil {
			d.putJob(c, j.job)
		}
		if j.drop {
			job := d.jobs[c.Drop]
			job.drop, job.pruned, job.entry = true, true, nil
		}
		if j.node != nil {
			n := d.machines[topology.NodeID(c.Node.Id)]
			n.record, n.data = c.Node, j.node
		}
		if j.policy != nil {
			d.policies.by, d.policies.data = messages.FromToken(c.Policy.WrittenBy), j.policy
			d.learn(j.learned)
		}
		if j.queues != nil {
			d.tree.by, d.tree.data = messages.FromToken(c.Queues.WrittenBy), j.queues
		}
	}
	return verdicts
}

func (d *Draft) putJob(c *actors.Change, next *jobEntry) {
	j := d.jobs[topology.JobID(c.Job.Id)]
	j.entry, j.queue, j.script, j.dirty = next, c.Job.GetSpec().GetQueue(), c.Job.GetSpec().GetScript().GetDigest(),
		true
	if next.head.RequestID != "" {
		d.requests[request{next.head.Owner, next.head.RequestID}] = true
	}
	for _, a := range c.Attempts {
		d.records[messages.FromToken(a.Token)] = true
	}
	for _, t := range next.ends {
		d.ends = append(d.ends, t)
		d.learned = slices.DeleteFunc(d.learned, func(known topology.Token) bool { return known == t }) // included too early
	}
	d.arrival, d.uidTurn = max(d.arrival, next.head.Arrival), max(d.uidTurn, next.head.UIDTurn)
}

// learn records that the statistics include these attempts. An attempt that ended in this transaction gets no note.
func (d *Draft) learn(known []topology.Token) {
	for _, t := range known {
		if at := slices.Index(d.ends, t); at >= 0 {
			d.ends = slices.Delete(d.ends, at, at+1)
		} else {
			d.learned = append(d.learned, t)
		}
	}
}

// Tally adds the changes that Judge refused to a count by rule.
func (d *Draft) Tally(broken map[Rule]int) {
	for _, rule := range d.broken {
		broken[rule]++
	}
}

// Rows returns the rows of the accepted changes.
func (d *Draft) Rows() Rows {
	out := Rows{
		Ends: d.ends, Learned: d.learned, Policy: d.policies.row(), Queues: d.tree.row(),
		Arrival: d.arrival, UIDTurn: d.uidTurn,
	}
	for _, id := range d.Jobs {
		j := d.jobs[id]
		if j.drop {
			out.Drops = append(out.Drops, id)
		}
		if !j.dirty {
			continue
		}
		out.Jobs = append(out.Jobs, JobRow{
			Insert: !j.known, ID: id, Head: j.entry.head, Queue: j.queue, Script: j.script, Live: j.entry.live(),
			Sealed: seal(j.entry.record),
		})
		for i := range j.entry.attempts {
			a := &j.entry.attempts[i]
			if d.records[a.token] {
				out.Attempts = append(out.Attempts, AttemptRow{
					Insert: !d.tokens[a.token], Job: id, Token: a.token, Ended: a.ended, Owes: a.owes, Sealed: seal(a.record),
				})
			}
		}
	}
	for _, id := range d.Nodes {
		if n := d.machines[id]; n.data != nil {
			out.Nodes = append(out.Nodes, NodeRow{Insert: !n.known, ID: id, Sealed: seal(n.data)})
		}
	}
	return out
}

func (d *Draft) entry(id topology.JobID) *jobEntry {
	if j := d.jobs[id]; j != nil {
		return j.entry
	}
	return nil
}

func (d *Draft) wasPruned(id topology.JobID) bool { return d.jobs[id] != nil && d.jobs[id].pruned }

func (d *Draft) damaged(id topology.JobID) bool { return d.jobs[id].bad }

func (d *Draft) wasRequested(r request) bool { return d.requests[r] }

func (d *Draft) machine(id topology.NodeID) *messages.NodeRecord {
	if n := d.machines[id]; n != nil {
		return n.record
	}
	return nil
}

func (d *Draft) policy() topology.Token { return d.policies.by }

func (d *Draft) queues() topology.Token { return d.tree.by }

func (d *Draft) wasCommitted(t topology.Token) bool { return d.tokens[t] || d.records[t] }
