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

// This file owns the store's past: a backup that an operator brings back when the
// cluster has gone on without it, a replica that takes over without the end of
// what was acknowledged, and what the checkers may then no longer expect.

// restoredEpochs is how far a restore moves the epoch on.
const restoredEpochs = 1_000_000

// backup is the store and the checkers' books as they were.
type backup struct {
	kept  *store.Memory
	file  string // where the file's is; empty: there is none
	books *books
	ripe  instant // an old one is brought back from then on, a replica only until then
}

// loss lists the records that restores have removed from the store.
type loss struct {
	script   *backup
	old      *backup                 // of a disk that will be lost
	replica  *backup                 // behind by a moment
	tokens   map[topology.Token]bool // committed, and unknown to the store
	accepted uint64                  // the operator gave up what leaders up to this epoch decided
	ledUpTo  uint64                  // up to which there is something to give up
	damaged  []string                // jobs of which a record was made unreadable
}

func (w *World) backUp(age time.Duration) *backup {
	s := w.store
	return &backup{kept: s.kept.Copy(0), file: s.file.backUp(), books: w.books.copy(), ripe: w.engine.now.plus(age)}
}

// loses reports whether COMMITs would be lost by bringing a backup back.
func (b *backup) loses(w *World) bool { return len(w.books.owner) > len(b.books.owner) }

func (b *books) copy() *books {
	c := &books{w: b.w, jobs: map[string]*jobPage{}, attempts: maps.Clone(b.attempts), owner: maps.Clone(b.owner),
		nodes: maps.Clone(b.nodes), ids: slices.Clone(b.ids), requests: maps.Clone(b.requests),
		dropped: maps.Clone(b.dropped), policy: b.policy, given: map[string]*given{},
		learned: maps.Clone(b.learned),
		queues:  b.queues, queuesAt: b.queuesAt, queued: b.queued}
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

// bringBack ends all schedulers and puts the backup in the store's place: by a
// restore, which moves the epoch on, or as a mere copy of the file.
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
	for _, id := range w.loss.damaged { // what was given up is there again, and as unreadable
		w.engine.after(w.luck.between(5*time.Second, w.draw.Pace), func() { w.client.giveUp(id) })
	}
	w.books.owner, w.books.commits = committed, commits // a token is never used again, whatever was lost
	w.say("the store was put back, %d attempts are unknown to it", len(w.loss.tokens))
	for _, inv := range w.checks {
		if r, is := inv.(interface{ restored(*World) }); is {
			r.restored(w)
		}
	}
}

// lost notes which attempts are not in the books any more.
func (w *World) lost(committed map[topology.Token]string) {
	for t := range committed { //order: each is only entered
		if _, known := w.books.owner[t]; !known {
			w.loss.tokens[t] = true
		}
	}
}

// forget lets people know which of their jobs and cancels were lost. They submit
// the jobs again.
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

// lose lets people know that a job was lost.
func (c *client) lose(o *Order) {
	delete(c.byID, o.id)
	o.id, o.cancelled = "", 0
	c.w.engine.after(c.w.jobs.between(time.Second, 20*time.Second), func() { c.order(o) })
}

// acceptLoss is the operator's word: the next leaders are started with it.
func (w *World) acceptLoss() {
	w.loss.accepted = w.loss.ledUpTo
	w.say("the operator gives up what leaders up to epoch %d decided", w.loss.accepted)
	if p := w.leader(); p != nil {
		p.crash()
	}
}

// storeRestored brings a backup back after a while, and the operator's word some
// time later.
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

// storeTail lets an asynchronous replica take over: the last moments of what was
// acknowledged are gone. Who leads was copied in time, so epochs go on.
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

// BackUp remembers the store as it is.
func (w *World) BackUp() { w.loss.script = w.backUp(0) }

// Restore ends all schedulers and brings the backup back; a mere copy of the
// file does not move the epoch on.
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
	w.engine.after(time.Minute, w.client.forget) // nobody tells them
}

// Prune forgets every job that is over and lacks no evidence.
func (w *World) Prune() {
	if _, err := w.store.kept.Prune(w.store.kept.Epoch(), math.MaxInt64, len(w.books.ids)); err != nil {
		panic(err) // it is in memory
	}
	w.forgetPruned()
}

// DamageJob makes a job's record unreadable in the store, or those of its attempts.
func (w *World) DamageJob(o *Order, attempts bool) {
	w.harms()
	table := "job"
	if attempts {
		table = "attempt"
	}
	w.damage(table, o.id)
}

// DamageNode does so with that of a machine.
func (w *World) DamageNode(number int) {
	w.harms()
	w.damageNode(w.at(number))
}

// forgetPruned: of what the store has forgotten nothing more is expected.
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

// AcceptLoss is the operator's word that what the store does not know is given up.
func (w *World) AcceptLoss() { w.acceptLoss() }

// unknown reports whether an attempt on a machine is one that the store has lost.
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
