package storetest

import (
	"fmt"
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the random content of a history: transactions, other records, and queries of finished jobs. The number
// of distinct values is small, so that changes collide.

const (
	living   = 6 // IDs that were not pruned
	finishes = 9 // times at which jobs end: several jobs end at the same time
	scripts  = 3
)

var (
	owners = []string{"alice", "bob"}
	queues = []string{"", "q1", "q2"}
	ends   = []messages.JobState{
		messages.JobState_JOB_STATE_SUCCEEDED, messages.JobState_JOB_STATE_FAILED, messages.JobState_JOB_STATE_CANCELLED,
	}
)

func oneOf[T any](h *history, all []T) T { return all[h.r.IntN(len(all))] }

// ids returns how many IDs are in use. A pruned ID stays used.
func (h *history) ids() int { return living + len(h.m.pruned) }

// id draws an ID, rarely a pruned one.
func (h *history) id() string {
	for {
		id := jobName(h.r.IntN(h.ids()))
		if !h.m.pruned[id] || h.r.IntN(3*len(h.m.pruned)) == 0 {
			return id
		}
	}
}

func scriptText(i int) []byte { return fmt.Appendf(nil, "#!/bin/sh\necho %d\n", i) }

// script returns a script that a job may name, whether it is stored or not.
func (h *history) script() *messages.Script {
	text := scriptText(h.r.IntN(scripts))
	return &messages.Script{Name: "a.sh", Digest: messages.ScriptDigest(text), SizeBytes: int64(len(text))}
}

// transaction draws changes, most of which continue from earlier ones. Some occur twice.
func (h *history) transaction() []actors.Change {
	at := h.m.clone()
	var all []actors.Change
	for range 1 + h.r.IntN(5) {
		c := h.change(at)
		if h.r.IntN(6) == 0 && len(all) > 0 {
			c = oneOf(h, all)
		}
		all = append(all, c)
		if h.r.IntN(4) > 0 {
			at.change(c)
		}
		if len(c.Attempts) > 0 && c.Attempts[0].End != nil && h.r.IntN(3) == 0 {
			token := messages.FromToken(c.Attempts[0].Token)
			knows := actors.Change{Policy: h.writer.policy("carol"), Learned: []topology.Token{token}}
			all = slices.Insert(all, len(all)-h.r.IntN(2), knows) // after the end, or before it
			at.change(knows)
		}
	}
	return all
}

// change draws a change that is often valid: it continues from the stored records.
func (h *history) change(at *model) actors.Change {
	switch h.r.IntN(16) {
	case 0, 1, 2:
		return h.policy(at)
	case 3:
		return h.queues()
	case 4:
		return actors.Change{Drop: topology.JobID(h.id())}
	case 5, 6:
		n := h.writer.machine(fmt.Sprintf("n%d", h.r.IntN(3)))
		n.Revision = at.nodes[n.Id].GetRevision() + 1 - h.r.Uint64N(2)
		if h.r.IntN(2) == 0 {
			return actors.Change{Node: n}
		}
		return actors.Change{Node: n, Job: h.job(at).Job}
	}
	return h.job(at)
}

// policy draws a policy record that includes new attempts, and some that never existed.
func (h *history) policy(at *model) actors.Change {
	c := actors.Change{Policy: h.writer.policy("alice", "bob")}
	if h.r.IntN(4) == 0 {
		c.Policy.WrittenBy.Counter = 1 + h.r.Uint64N(h.writer.writes)
	}
	for range h.r.IntN(3) {
		c.Learned = append(c.Learned, topology.Token{
			Epoch: 1 + h.r.Uint64N(h.writer.epoch), Counter: 1 + h.r.Uint64N(h.writer.writes),
		})
	}
	if l := at.load(); len(l.Unlearned) > 0 {
		c.Learned = append(c.Learned, messages.FromToken(oneOf(h, l.Unlearned).Attempt.Token))
		h.unlearned++
	}
	return c
}

func (h *history) queues() actors.Change {
	r := h.writer.queues(1+h.r.Uint64N(9), "q1", "q2")
	if h.r.IntN(4) == 0 {
		r.WrittenBy.Counter = 1 + h.r.Uint64N(h.writer.writes)
	}
	return actors.Change{Queues: r}
}

// job draws the first record of a job, or the next one.
func (h *history) job(at *model) actors.Change {
	id := h.id()
	was, known := at.jobs[id]
	if !known {
		j := h.writer.submit(id, 1+h.r.Uint64N(h.writer.writes+1))
		j.Owner.Name, j.Spec.Queue, j.UidTurn = oneOf(h, owners), oneOf(h, queues), h.r.Uint64N(9)
		j.RequestId = []string{"", "r", id}[h.r.IntN(3)]
		if h.r.IntN(2) == 0 {
			j.Spec.Script = h.script()
		}
		return jobChange(j)
	}
	next := h.writer.next(was.record, func(n *messages.JobRecord) {
		switch h.r.IntN(20) {
		case 0, 1:
			n.Revision += h.r.Uint64N(3) - 1
		case 2:
			n.Owner.Name = oneOf(h, owners)
		case 3:
			n.RequestId = "r"
		case 4:
			n.Spec.Queue = oneOf(h, queues)
		case 5:
			n.UidTurn = h.r.Uint64N(20)
		case 6:
			n.ExitCode = h.r.Int32N(2)
		case 7:
			n.Spec.Script = h.script()
		}
	})
	return h.goOn(next, was.attempts)
}

// goOn takes a job one step further.
func (h *history) goOn(next *messages.JobRecord, attempts []*messages.AttemptRecord) actors.Change {
	c := jobChange(next)
	open := false // whether the last attempt is still open after this change
	if len(attempts) > 0 && h.r.IntN(3) > 0 {
		c.Attempts = append(c.Attempts, h.rewritten(attempts))
		open = c.Attempts[0].End == nil
	}
	if !open && h.r.IntN(5) > 1 || h.r.IntN(20) == 0 {
		token := topology.Token{Epoch: h.writer.epoch, Counter: h.writer.writes - h.r.Uint64N(min(h.writer.writes, 3))}
		a := commit(next.Id, token)
		if h.r.IntN(20) == 0 {
			exited(0)(a)
		}
		c.Attempts = append(c.Attempts, a)
		if !next.State.Terminal() {
			next.State, next.Attempt = messages.JobState_JOB_STATE_ACTIVE, a.Token
		}
	} else if h.r.IntN(2) == 0 {
		next.State, next.FinishedUnixMs = oneOf(h, ends), 1+h.r.Int64N(finishes)
	}
	return c
}

// rewritten returns an attempt with later facts, or with a forbidden change. It is usually the last attempt.
func (h *history) rewritten(attempts []*messages.AttemptRecord) *messages.AttemptRecord {
	a := attempts[len(attempts)-1]
	if h.r.IntN(5) == 0 {
		a = oneOf(h, attempts)
	}
	a = attempt(a, exited(h.r.Perm(2)[:h.r.IntN(3)]...))
	switch h.r.IntN(20) {
	case 0:
		a.End = nil // it is taken back
	case 1:
		a.Run++
	case 2:
		a.CommittedUnixMs++
	case 3:
		oneOf(h, a.Places).MachineId = "clone"
	case 4:
		oneOf(h, a.Places).Grant.Gpus[0].Milli--
	case 5:
		a.Places = a.Places[:1]
	case 6:
		oneOf(h, a.Places).Exit = nil
	case 7, 8, 9, 10, 11, 12, 13, 14:
		if a.End == nil {
			ranFor(h.r.Int64N(3))(a)
		}
	}
	return a
}

// aside stores or deletes records outside of transactions.
func (h *history) aside() {
	h.Helper()
	var err error
	switch epoch := h.writer.epoch; h.r.IntN(7) {
	case 0, 1:
		text := scriptText(h.r.IntN(scripts))
		err = h.s.KeepScript(epoch, text)
		h.m.scripts[messages.ScriptDigest(text)] = modelScript{text: string(text)}
	case 2, 3:
		var gone int
		gone, err = h.s.PruneScripts(epoch, 100)
		h.same("scripts pruned", gone, h.m.pruneScripts())
	case 4:
		p := pass(fmt.Sprintf("p%d", h.r.IntN(3)), oneOf(h, owners))
		err = h.s.KeepPass(epoch, p)
		if h.m.passes[p.Id] == nil {
			h.m.passes[p.Id] = p
		}
	case 5:
		id := fmt.Sprintf("p%d", h.r.IntN(3))
		err = h.s.DropPass(epoch, id)
		delete(h.m.passes, id)
	case 6:
		head := store.AuditHead{Scheduler: fmt.Sprintf("s%d", h.r.IntN(3)), N: 1 + h.r.Uint64N(9), Hash: "h"}
		err = h.s.KeepHead(head)
		h.m.heads[head.Scheduler] = head
	}
	if err != nil {
		h.Fatal(err)
	}
}

// question draws a query of finished jobs.
func (h *history) question() store.Past {
	p := store.Past{Look: 1 + h.r.IntN(4)}
	if over := h.m.finished(); len(over) > 0 {
		if h.r.IntN(2) == 0 {
			p.SinceUnixMs = oneOf(h, over).record.FinishedUnixMs
		}
		switch j := oneOf(h, over).record; h.r.IntN(4) {
		case 0:
			p.Before = store.PositionOf(j)
		case 1:
			p.Before = store.Position{FinishedUnixMs: j.FinishedUnixMs}
		}
	}
	if h.r.IntN(3) == 0 {
		p.Owner = oneOf(h, owners)
	}
	if h.r.IntN(3) == 0 {
		p.Queue = oneOf(h, queues)
	}
	if h.r.IntN(3) == 0 {
		p.States = ends[:1+h.r.IntN(2)]
	}
	return p
}
