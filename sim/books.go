package sim

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file holds the checkers' own copy of the durable records in the store. The copy is updated from each
// transaction, so a checker sees each record before and after a write.

// books holds the store's records.
type books struct {
	w        *World
	jobs     map[string]*jobPage
	attempts map[topology.Token]*messages.AttemptRecord // attempts that may still matter
	owner    map[topology.Token]string                  // the job of every token that was ever committed
	commits  map[topology.Token]uint64                  // a hash of the decision under each token
	nodes    map[string]*messages.NodeRecord
	ids      []string                // job IDs in order of arrival
	queued   int                     // number of jobs in the queue
	requests map[string]string       // job ID by request ID
	policy   topology.Token          // the write that created the policy record
	learned  map[topology.Token]bool // attempts that the policy record has learned from
	given    map[string]*given       // start guarantees by job
	queues   *messages.QueuesRecord  // nil if no queues were applied
	queuesAt instant                 // when the present queues were applied
	longerAt instant                 // when a job last got more time
	dropped  map[string]instant      // when the operator gave up a job whose record was corrupted
}

// jobPage holds the checkers' knowledge of one job.
type jobPage struct {
	record *messages.JobRecord
	queued bool             // the job waits, and nobody holds or cancels it
	began  bool             // an attempt of the job has started
	tokens []topology.Token // committed attempts in the order of their COMMITs
	since  instant          // when the job entered its present state, or was last released in it
	// The time limit and the moment from which it holds. A client may change the limit.
	limit       time.Duration
	limitSince  instant // when the limit was set; 0 if the job was submitted with it
	longerSince instant // when the job last got more time
	mostSince   instant // when the array's limit of running elements last changed; 0: never
	holdAsked   instant // when a client last requested a hold or a release; 0: never
}

// stored is one durable write as a checker sees it.
type stored struct {
	proc  *process
	epoch uint64
	// when the leader passed the write to the Journal; only for a submit and for a write with attempts
	decided       instant
	heard         instant // when the Job received the message that caused the write; for the same writes
	job, jobWas   *messages.JobRecord
	page          *jobPage
	attempts      []*messages.AttemptRecord
	attemptsWere  []*messages.AttemptRecord
	node, nodeWas *messages.NodeRecord
	policy        *messages.PolicyRecord
	learned       []topology.Token // attempts that the policy record learns from for the first time
}

// committed returns the attempts that the write commits.
func (s *stored) committed() []*messages.AttemptRecord {
	var fresh []*messages.AttemptRecord
	for i, a := range s.attempts {
		if s.attemptsWere[i] == nil {
			fresh = append(fresh, a)
		}
	}
	return fresh
}

func newBooks(w *World) *books {
	return &books{w: w, jobs: map[string]*jobPage{}, attempts: map[topology.Token]*messages.AttemptRecord{},
		owner: map[topology.Token]string{}, commits: map[topology.Token]uint64{}, nodes: map[string]*messages.NodeRecord{},
		requests: map[string]string{}, dropped: map[string]instant{}, given: map[string]*given{},
		learned: map[topology.Token]bool{}}
}

func (b *books) writeAll(p *process, epoch uint64, changes []actors.Change, verdicts []actors.Verdict) {
	for i, c := range changes {
		if verdicts[i] == actors.Done {
			b.write(&stored{proc: p, epoch: epoch}, c)
			if c.Drop != "" {
				b.dropped[string(c.Drop)] = b.w.engine.now
				b.w.forgetPruned()
			}
		} else {
			b.w.seen(Event{Kind: Refused, Process: p, Refused: describeChange(c)})
		}
	}
}

func describeChange(c actors.Change) string {
	switch {
	case c.Node != nil:
		return describe(c.Node)
	case c.Drop != "":
		return "drop " + string(c.Drop)
	case c.Policy != nil:
		return "what was learned"
	case c.Queues != nil:
		return "queues"
	}
	text := describe(c.Job)
	for _, a := range c.Attempts {
		text += " " + describe(a)
	}
	return text
}

// write enters one change, after the checkers have seen it.
func (b *books) write(s *stored, c actors.Change) {
	if c.Job != nil {
		s.page = b.jobs[c.Job.Id]
		if s.page == nil {
			s.page = &jobPage{}
		}
		s.job, s.jobWas = copyOf(c.Job), s.page.record
		if s.jobWas != nil && s.jobWas.Revision == s.job.Revision {
			return // the store recognised a repeated write and did nothing
		}
	}
	if len(c.Attempts) > 0 || c.Job.GetRevision() == 1 || c.Job.GetPromise() != nil {
		t := messages.FromToken(c.Job.WrittenBy)
		s.decided, s.heard = s.proc.drafts[t].at, s.proc.drafts[t].heard
		delete(s.proc.drafts, t)
	}
	for _, a := range c.Attempts {
		s.attempts = append(s.attempts, copyOf(a))
		s.attemptsWere = append(s.attemptsWere, b.attempts[messages.FromToken(a.Token)])
	}
	if c.Node != nil {
		s.node, s.nodeWas = copyOf(c.Node), b.nodes[c.Node.Id]
	}
	if c.Policy != nil {
		was := b.policy
		if b.policy = messages.FromToken(c.Policy.WrittenBy); b.policy == was {
			return // a repeated write, as above
		}
		s.policy, s.learned = copyOf(c.Policy), slices.Clone(c.Learned)
		for _, t := range s.learned {
			b.learned[t] = true
		}
	}
	if c.Queues != nil {
		b.w.queuesWere(b.queues)
		b.queues, b.queuesAt = copyOf(c.Queues), b.w.engine.now
		return
	}
	b.w.seen(Event{Kind: Stored, Process: s.proc, Stored: s})
	b.enter(s)
}

func (b *books) enter(s *stored) {
	for i, a := range s.attempts {
		t := messages.FromToken(a.Token)
		if s.attemptsWere[i] == nil {
			s.page.tokens = append(s.page.tokens, t)
			b.owner[t], b.commits[t] = a.Job, decisionOf(a)
			delete(b.w.loss.tokens, t) // the store knows the attempt again
		}
		b.attempts[t] = a
		s.page.began = s.page.began || a.StartedUnixMs != 0
	}
	if s.node != nil {
		b.nodes[s.node.Id] = s.node
	}
	if s.job == nil {
		return
	}
	if s.page.record == nil {
		b.jobs[s.job.Id] = s.page
		b.ids = append(b.ids, s.job.Id)
		b.requests[s.job.RequestId] = s.job.Id
	}
	if s.jobWas == nil || s.jobWas.State != s.job.State || s.jobWas.Hold != nil && s.job.Hold == nil {
		s.page.since = b.w.engine.now
	}
	if limit := time.Duration(s.job.Spec.GetTimeLimitMs()) * time.Millisecond; limit != s.page.limit {
		if s.jobWas != nil {
			s.page.limitSince = b.w.engine.now
			if limit == 0 || s.page.limit > 0 && limit > s.page.limit {
				s.page.longerSince, b.longerAt = b.w.engine.now, b.w.engine.now
			}
		}
		s.page.limit = limit
	}
	if s.jobWas != nil && s.jobWas.Spec.GetArray().GetMost() != s.job.Spec.GetArray().GetMost() {
		s.page.mostSince = b.w.engine.now
	}
	s.page.record = s.job
	b.count(s.page)
	b.promised(s)
	b.shorten(s.page)
}

// limitIsFresh reports whether a decision of that time may have used an earlier limit.
func (p *jobPage) limitIsFresh(decided instant) bool {
	return p.limitSince > 0 && decided.since(p.limitSince) < time.Minute
}

// count updates the number of queued jobs. Counting all jobs at each look took most of the checkers' time in a long
// run.
func (b *books) count(page *jobPage) {
	r := page.record
	queued := r.State == messages.JobState_JOB_STATE_QUEUED && r.Hold == nil && r.Cancel == nil
	switch {
	case queued && !page.queued:
		b.queued++
	case page.queued && !queued:
		b.queued--
	}
	page.queued = queued
}

// decisionOf returns a hash that distinguishes one COMMIT from another.
func decisionOf(commit *messages.AttemptRecord) uint64 {
	return hashString(string(messages.Bytes(commit)))
}

// shorten drops data of a finished job that no checker needs any more. A long run has many finished jobs.
func (b *books) shorten(page *jobPage) {
	if !page.record.State.Terminal() || b.owes(page) {
		return
	}
	for _, t := range page.tokens {
		delete(b.attempts, t)
	}
	r := page.record
	if r.Spec.GetArray() != nil {
		return // its elements' requests are looked up in it
	}
	page.record = &messages.JobRecord{Id: r.Id, Revision: r.Revision, WrittenBy: r.WrittenBy, RequestId: r.RequestId,
		State: r.State, Attempt: r.Attempt, Cancel: r.Cancel, Outcome: r.Outcome, Arrival: r.Arrival,
		Uid: r.Uid, UidToCome: r.UidToCome, UidTurn: r.UidTurn, RanMs: r.RanMs}
}

// settled reports whether an attempt was committed and needs no more evidence. This is so if the store has all exit
// confirmations, or if the job has finished.
func (b *books) settled(t topology.Token) bool {
	_, committed := b.owner[t]
	return committed && b.attempts[t] == nil
}

// attemptsOf returns a job's committed attempts that may still matter, oldest first.
func (b *books) attemptsOf(page *jobPage) []*messages.AttemptRecord {
	var all []*messages.AttemptRecord
	for _, t := range page.tokens {
		if a := b.attempts[t]; a != nil {
			all = append(all, a)
		}
	}
	return all
}

// owes reports whether the exit of some member of a job is unconfirmed.
func (b *books) owes(page *jobPage) bool {
	return slices.ContainsFunc(b.attemptsOf(page), (*messages.AttemptRecord).Owes)
}

// isToAsk reports whether an element that is not yet a job will have these terms, according to its array's record.
func (b *books) isToAsk(job string, t terms) bool {
	array, index, _ := messages.ArrayOf(job)
	page := b.jobs[array]
	if page == nil || page.record.Spec.GetArray().Place(index) < 0 {
		return false
	}
	spec := page.record.Spec.ElementSpec(array, index)
	page.record.Array.ChangedAt(page.record.Spec.Array.Place(index)).On(spec)
	return t == terms{spec.Priority, spec.TimeLimitMs}
}

// neverBorn reports whether an element of an array was cancelled before it became a job.
func (b *books) neverBorn(id string) bool {
	array, index, is := messages.ArrayOf(id)
	page := b.jobs[array]
	if !is || page == nil {
		return false
	}
	r := page.record
	_, never := r.GetArray().Unborn(r.Spec.GetArray().Place(index))
	return never
}

// follows reports whether a job that this job depends on has not finished, according to that job's record.
func (b *books) follows(r *messages.JobRecord) bool {
	return slices.ContainsFunc(r.Spec.GetAfter(), func(a *messages.After) bool {
		page := b.jobs[a.Job]
		if page == nil {
			return b.unbornYet(a.Job)
		}
		started := a.End == messages.AfterEnd_AFTER_END_STARTED && page.began
		return !page.record.State.Terminal() && !b.gaveUp(a.Job) && !started
	})
}

// unbornYet reports whether an element may still become a job.
func (b *books) unbornYet(id string) bool {
	array, _, is := messages.ArrayOf(id)
	page := b.jobs[array]
	return is && page != nil && !page.record.State.Terminal() && !b.gaveUp(array)
}

// gaveUp reports whether the operator gave up a job because its record was corrupted.
func (b *books) gaveUp(id string) bool { return b.dropped[id] > 0 }

// latest returns a job's latest committed attempt. It returns nil if there is none, or if the attempt has ended and was
// dropped.
func (b *books) latest(page *jobPage) *messages.AttemptRecord {
	if len(page.tokens) == 0 {
		return nil
	}
	return b.attempts[page.tokens[len(page.tokens)-1]]
}
