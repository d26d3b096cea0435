package sim

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file simulates old copies of the store: a backup that an operator restores after the cluster has continued, and
// a replica that takes over without the last acknowledged writes. It also defines what the checkers may no longer
// expect then.

// restoredEpochs is the number by which a restore increases the epoch.
const restoredEpochs = 1_000_000

// backup holds an earlier state of the store and of the checkers' records.
type backup struct {
	kept  *store.Memory
	file  string // path of the file's copy; empty: there is none
	books *books
	ripe  instant // an old backup is restored from then on, a replica only until then
}

// loss lists the records that restores have removed from the store.
type loss struct {
	script   *backup
	old      *backup                 // backup from a disk that will be lost
	replica  *backup                 // a copy with a short lag
	tokens   map[topology.Token]bool // tokens that were committed and are unknown to the store
	accepted uint64                  // the operator gave up the decisions of leaders up to this epoch
	ledUpTo  uint64                  // up to this epoch there is something to give up
	damaged  []string                // jobs of which a record was made unreadable
}

func (w *World) backUp(age time.Duration) *backup {
	s := w.store
	return &backup{kept: s.kept.Copy(0), file: s.file.backUp(), books: w.books.copy(), ripe: w.engine.now.plus(age)}
}

// loses reports whether restoring a backup would lose COMMITs.
func (b *backup) loses(w *World) bool { return len(w.books.owner) > len(b.books.owner) }

func (b *books) copy() *books {
	c := &books{w: b.w, jobs: map[string]*jobPage{}, attempts: maps.Clone(b.attempts), owner: maps.Clone(b.owner),
		nodes: maps.Clone(b.nodes), ids: slices.Clone(b.ids), requests: maps.Clone(b.requests),
		dropped: maps.Clone(b.dropped), policy: b.policy, given: map[string]*given{},
		learned: maps.Clone(b.learned),
		queues:  b.queues, queuesAt: b.queuesAt, queued: b.queued, longerAt: b.longerAt}
	for id, page := range b.jobs { //order: each goes to its own place
		again := *page
		again.tokens = slices.Clone(page.tokens)
		c.jobs[id] = &again
	}
	for id, g := range b.given { //order: each goes to its own place
		again := *g
		c.given[id] = &again
	}
	return c
}

// bringBack ends all schedulers and replaces the store with the backup. A restore increases the epoch. A plain copy of
// the file does not.
func (w *World) bringBack(b *backup, epochs uint64) {
	for _, h := range w.schedulers {
		if h.proc != nil {
			h.proc.crash()
		}
	}
	w.replace(b, epochs)
	w.client.forget()
}

func (w *World) replace(b *backup, epochs uint64) {
	w.loss.ledUpTo = w.store.kept.Epoch()
	w.store.kept = b.kept.Copy(epochs)
	w.store.file.bringBack(b.file)
	committed, commits := w.books.owner, w.books.commits
	w.queuesWere(w.books.queues)
	w.books = b.books
	w.lost(committed)
	for _, id := range w.loss.damaged { // corrupted records that were given up are back, and still unreadable
		w.engine.after(w.luck.between(5*time.Second, w.draw.Pace), func() { w.client.giveUp(id) })
	}
	w.books.owner, w.books.commits = committed, commits // a token is never used again, whatever was lost
	w.say("the store was restored, %d attempts are unknown to it", len(w.loss.tokens))
	for _, inv := range w.checks {
		if r, is := inv.(interface{ restored(*World) }); is {
			r.restored(w)
		}
	}
}

// lost notes which attempts are no longer in the records.
func (w *World) lost(committed map[topology.Token]string) {
	for t := range committed { //order: each is only entered
		if _, known := w.books.owner[t]; !known {
			w.loss.tokens[t] = true
		}
	}
}

// forget tells clients which of their jobs and cancels were lost. They submit the jobs again.
func (c *client) forget() {
	for _, o := range c.jobs {
		page := c.w.books.jobs[o.id]
		switch {
		case o.id == "":
		case page == nil:
			c.lose(o)
		case page.record.Cancel == nil:
			o.cancelled = 0
		}
	}
}

// lose tells a client that a job was lost.
func (c *client) lose(o *Order) {
	delete(c.byID, o.id)
	o.id, o.cancelled = "", 0
	c.w.engine.after(c.w.jobs.between(time.Second, 20*time.Second), func() { c.order(o) })
}

// acceptLoss gives up lost decisions for the operator. The next leaders are started with it.
func (w *World) acceptLoss() {
	w.loss.accepted = w.loss.ledUpTo
	w.say("the operator gives up the lost decisions of leaders up to epoch %d", w.loss.accepted)
	if p := w.leader(); p != nil {
		p.crash()
	}
}

// storeRestored restores a backup after a while, and accepts the loss some time later.
func storeRestored(f *faults) bool {
	w := f.w
	b := w.loss.old
	if w.draw.File && w.store.file == nil {
		return false
	}
	if b == nil {
		w.loss.old = w.backUp(w.luck.between(time.Second, 2*w.draw.Pace))
		return false
	}
	if w.engine.now < b.ripe || !b.loses(w) {
		return false
	}
	return f.putBack(b, restoredEpochs)
}

// storeTail lets an asynchronous replica take over. The last acknowledged writes are lost. The lease was copied in
// time, so epochs continue.
func storeTail(f *faults) bool {
	w := f.w
	b := w.loss.replica
	if b == nil || w.engine.now >= b.ripe || b.kept.Epoch() != w.store.kept.Epoch() {
		w.loss.replica = w.backUp(w.luck.skewed(100*time.Millisecond, 20*time.Second))
		return false
	}
	if !b.loses(w) {
		return false
	}
	return f.putBack(b, 0)
}

func (f *faults) putBack(b *backup, epochs uint64) bool {
	w := f.w
	w.loss.old, w.loss.replica = nil, nil
	w.bringBack(b, epochs)
	f.until(w.luck.between(time.Second, w.draw.Pace), w.acceptLoss)
	return true
}

// BackUp saves the present store.
func (w *World) BackUp() { w.loss.script = w.backUp(0) }

// Restore ends all schedulers and restores the backup. A plain copy of the file does not increase the epoch.
func (w *World) Restore(copied bool) {
	w.harms()
	epochs := uint64(restoredEpochs)
	if copied {
		epochs = 0
	}
	w.bringBack(w.loss.script, epochs)
}

// LoseTail lets a replica take over so fast that the leader does not notice.
func (w *World) LoseTail() {
	w.harms()
	w.replace(w.loss.script, 0)
	w.engine.after(time.Minute, w.client.forget) // nobody informs them earlier
}

// Prune removes every finished job that lacks no exit confirmation.
func (w *World) Prune() {
	if _, err := w.store.kept.Prune(w.store.kept.Epoch(), math.MaxInt64, len(w.books.ids)); err != nil {
		panic(err) // an in-memory store cannot fail
	}
	w.forgetPruned()
}

// DamageJob makes the record of a job, or the records of its attempts, unreadable in the store.
func (w *World) DamageJob(o *Order, attempts bool) {
	w.harms()
	table := "job"
	if attempts {
		table = "attempt"
	}
	w.damage(table, o.id)
}

// DamageNode makes the record of a node unreadable.
func (w *World) DamageNode(number int) {
	w.harms()
	w.damageNode(w.at(number))
}

// forgetPruned ends all expectations about jobs that the store has pruned.
func (w *World) forgetPruned() {
	gone := func(id string) bool {
		pruned, err := w.store.kept.Pruned(topology.JobID(id))
		return err == nil && pruned
	}
	for id, page := range w.books.jobs { //order: each is looked at alone
		for _, t := range page.tokens {
			if gone(id) {
				delete(w.books.attempts, t)
			}
		}
	}
	w.books.ids = slices.DeleteFunc(w.books.ids, gone)
	for _, o := range w.client.jobs {
		if gone(o.id) {
			o.id = "" // nothing more is expected of it
		}
	}
	maps.DeleteFunc(w.books.requests, func(_, id string) bool { return gone(id) })
	maps.DeleteFunc(w.books.jobs, func(id string, page *jobPage) bool {
		if gone(id) && page.queued {
			w.books.queued--
		}
		return gone(id)
	})
}

// AcceptLoss gives up everything that the store does not know, as the operator does.
func (w *World) AcceptLoss() { w.acceptLoss() }

// unknown reports whether an attempt on a node is one that the store has lost.
func (w *World) unknown(sl *messages.SliceReport) bool {
	return w.isLost(messages.FromToken(sl.Token)) && sl.State > messages.SliceState_SLICE_STATE_RESERVED
}

// hasLostRun reports whether the store has lost an attempt of a job that it knows.
func (w *World) hasLostRun(job string) bool {
	for t := range w.loss.tokens { //order: any will do
		if w.books.owner[t] == job {
			return true
		}
	}
	return false
}

// hasLost reports whether the store has lost any attempt that the operator has not given up.
func (w *World) hasLost() bool {
	for t := range w.loss.tokens { //order: any will do
		if w.isLost(t) {
			return true
		}
	}
	return false
}

// isLost reports whether the store has lost an attempt, and the operator has not given it up.
func (w *World) isLost(t topology.Token) bool { return w.loss.tokens[t] && t.Epoch > w.loss.accepted }
