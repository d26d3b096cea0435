package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the comparison of a database with the store in memory: the
// same random history, half of it wrong, must get the same verdicts and leave
// the same records. The contract's cases hold only what somebody thought of.

// histories tries this many of them, each on a store of its own.
func histories(t *testing.T, open opener, seeds, steps int) {
	met, learned := map[store.Rule]int{}, 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			h := &history{T: t, r: rand.New(rand.NewPCG(seed, 7)), tried: open(t), m: store.NewMemory()}
			h.lead()
			for range steps {
				h.step()
			}
			h.compare()
			learned += h.unlearned
			for rule, n := range h.m.Broken() { //order: only counted
				met[rule] += n
			}
		})
	}
	if learned < seeds && !t.Failed() {
		t.Errorf("only %d times there was an attempt to learn from", learned)
	}
	for _, rule := range []store.Rule{
		store.RuleRevision, store.RuleRequest, store.RuleID, store.RuleTerminal, store.RuleCommit, store.RuleEnd,
	} {
		if met[rule] == 0 && !t.Failed() {
			t.Errorf("no change broke the rule %s: the histories prove nothing about it", rule)
		}
	}
}

// history is one run of both stores beside each other.
type history struct {
	*testing.T
	r      *rand.Rand
	writer writer
	tried
	m    *store.Memory
	lost []actors.Change // the last transaction: its answer may have been lost

	unlearned int // times that there was something to learn from
}

func (h *history) lead() {
	h.Helper()
	a, errA := h.s.Lead("tester")
	b, errB := h.m.Lead("tester")
	if errA != nil || errB != nil || a != b {
		h.Fatalf("lead: %d, %v and %d, %v", a, errA, b, errB)
	}
	h.writer.epoch = a
}

func (h *history) step() {
	h.Helper()
	switch n := h.r.IntN(40); {
	case n == 0:
		h.s = h.killed()
		h.lead()
	case n == 1:
		h.lead()
	case n == 2:
		h.compare()
	case n <= 4:
		before, limit := h.r.Int64N(int64(h.writer.writes)+2), h.r.IntN(3)
		a, errA := h.s.Prune(h.writer.epoch, before, limit)
		b, errB := h.m.Prune(h.writer.epoch, before, limit)
		if errA != nil || errB != nil || a != b {
			h.Fatalf("prune: %d, %v and %d, %v", a, errA, b, errB)
		}
	case n <= 7:
		h.apply(h.lost)
	default:
		changes := make([]actors.Change, 1+h.r.IntN(5))
		for i := range changes {
			changes[i] = h.change()
		}
		h.apply(changes)
		h.lost = changes
	}
}

func (h *history) apply(changes []actors.Change) {
	h.Helper()
	a, errA := h.s.Apply(h.writer.epoch, changes)
	b, errB := h.m.Apply(h.writer.epoch, changes)
	if errA != nil || errB != nil || fmt.Sprint(a) != fmt.Sprint(b) {
		h.Fatalf("apply\n%v\ngave %v, %v, and in memory %v, %v", changes, a, errA, b, errB)
	}
}

const ids = 6 // few, so that changes meet

func (h *history) id() string { return jobName(h.r.IntN(ids)) }

// change makes a change, often a valid one: it goes on from what is stored.
func (h *history) change() actors.Change {
	if h.r.IntN(8) == 0 {
		return h.policy()
	}
	if h.r.IntN(8) == 0 {
		n := h.writer.machine(fmt.Sprintf("n%d", h.r.IntN(3)))
		n.Revision = 1 + h.r.Uint64N(3)
		if h.r.IntN(2) == 0 {
			return actors.Change{Node: n}
		}
		return actors.Change{Node: n, Job: h.job().Job}
	}
	return h.job()
}

// policy makes a policy record that knows some of the attempts it did not know yet, and some that never existed.
func (h *history) policy() actors.Change {
	c := actors.Change{Policy: h.writer.policy("alice", "bob")}
	if h.r.IntN(4) == 0 {
		c.Policy.WrittenBy.Counter = 1 + h.r.Uint64N(h.writer.writes)
	}
	for range h.r.IntN(5) {
		c.Learned = append(c.Learned, topology.Token{
			Epoch: 1 + h.r.Uint64N(h.writer.epoch), Counter: 1 + h.r.Uint64N(h.writer.writes),
		})
	}
	if l, err := h.m.Load(h.writer.epoch); err == nil && len(l.Unlearned) > 0 {
		c.Learned = append(c.Learned, messages.FromToken(l.Unlearned[h.r.IntN(len(l.Unlearned))].Attempt.Token))
		h.unlearned++
	}
	return c
}

func (h *history) job() actors.Change {
	id := h.id()
	job, attempts, err := h.m.Job(topology.JobID(id))
	if errors.Is(err, store.ErrNotFound) {
		j := h.writer.submit(id, h.writer.writes+1)
		j.RequestId = []string{"", "r", id}[h.r.IntN(3)]
		return jobChange(j)
	}
	next := h.writer.next(job, func(n *messages.JobRecord) {
		if h.r.IntN(10) == 0 {
			n.Revision += h.r.Uint64N(3)
		}
	})
	return h.goOn(next, attempts)
}

// goOn takes a job one step further.
func (h *history) goOn(next *messages.JobRecord, attempts []*messages.AttemptRecord) actors.Change {
	c := jobChange(next)
	if h.r.IntN(2) == 0 && len(attempts) > 0 {
		last := attempts[len(attempts)-1]
		if last.End != nil && h.r.IntN(4) == 0 {
			last.End = nil // it is taken back
		} else if h.r.IntN(2) == 0 {
			ranFor(h.r.Int64N(3))(last)
		}
		exited(h.r.Perm(2)[:h.r.IntN(3)]...)(last)
		c.Attempts = append(c.Attempts, last)
	}
	switch h.r.IntN(4) {
	case 0:
		token := topology.Token{Epoch: h.writer.epoch, Counter: h.writer.writes - h.r.Uint64N(min(h.writer.writes, 3))}
		a := commit(next.Id, token)
		next.State, next.Attempt = messages.JobState_JOB_STATE_ACTIVE, a.Token
		c.Attempts = append(c.Attempts, a)
	case 1:
		next.State, next.FinishedUnixMs = messages.JobState_JOB_STATE_FAILED, int64(h.writer.writes)
	}
	return c
}

// compare reads both stores by every way there is.
func (h *history) compare() {
	h.Helper()
	a, errA := h.s.Load(h.writer.epoch)
	b, errB := h.m.Load(h.writer.epoch)
	if errA != nil || errB != nil {
		h.Fatalf("load: %v and %v", errA, errB)
	}
	h.same("arrival", a.Arrival, b.Arrival)
	sameRecords(h, "live jobs", a.Jobs, b.Jobs)
	sameRecords(h, "unsettled attempts", a.Attempts, b.Attempts)
	sameRecords(h, "machines", a.Nodes, b.Nodes)
	sameRecords(h, "what was learned", []*messages.PolicyRecord{a.Policy}, []*messages.PolicyRecord{b.Policy})
	jobsA, attemptsA := unlearned(a)
	jobsB, attemptsB := unlearned(b)
	sameRecords(h, "jobs to learn from", jobsA, jobsB)
	sameRecords(h, "attempts to learn from", attemptsA, attemptsB)
	finishedA, errA := h.s.Finished(store.Position{FinishedUnixMs: 3}, 4)
	finishedB, errB := h.m.Finished(store.Position{FinishedUnixMs: 3}, 4)
	h.same("finished", errA, errB)
	sameRecords(h, "finished jobs", finishedA, finishedB)
	h.comparePast(store.Past{Look: 5})
	h.comparePast(store.Past{Look: 5, Owner: "alice", SinceUnixMs: 3})
	for i := range ids {
		jobA, attemptsA, errA := h.s.Job(topology.JobID(jobName(i)))
		jobB, attemptsB, errB := h.m.Job(topology.JobID(jobName(i)))
		h.same("a job", errA, errB)
		sameRecords(h, "a job", []*messages.JobRecord{jobA}, []*messages.JobRecord{jobB})
		sameRecords(h, "its attempts", attemptsA, attemptsB)
		jobA, _, errA = h.s.Requested("alice", jobName(i))
		jobB, _, errB = h.m.Requested("alice", jobName(i))
		h.same("a request", errA, errB)
		sameRecords(h, "a request", []*messages.JobRecord{jobA}, []*messages.JobRecord{jobB})
	}
}

func unlearned(l *actors.Loaded) (jobs []*messages.JobRecord, attempts []*messages.AttemptRecord) {
	for _, e := range l.Unlearned {
		jobs, attempts = append(jobs, e.Job), append(attempts, e.Attempt)
	}
	return jobs, attempts
}

func (h *history) comparePast(p store.Past) {
	a, errA := h.s.History(p)
	b, errB := h.m.History(p)
	h.same("history", errA, errB)
	h.same("the next page of history", a.Next, b.Next)
	h.same("a page of history", len(a.Jobs), len(b.Jobs))
	for i := range a.Jobs {
		sameRecords(h, "a past job", []*messages.JobRecord{a.Jobs[i].Job}, []*messages.JobRecord{b.Jobs[i].Job})
		sameRecords(h, "its attempts", a.Jobs[i].Attempts, b.Jobs[i].Attempts)
	}
}

func (h *history) same(what string, a, b any) {
	h.Helper()
	if a != b {
		h.Fatalf("%s: %v, and in memory %v", what, a, b)
	}
}

func sameRecords[M proto.Message](h *history, what string, a, b []M) {
	h.Helper()
	if len(a) != len(b) {
		h.Fatalf("%s: %v\nand in memory\n%v", what, a, b)
	}
	for i := range a {
		if !proto.Equal(a[i], b[i]) {
			h.Fatalf("%s: %v\nand in memory\n%v", what, a[i], b[i])
		}
	}
}
