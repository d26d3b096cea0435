// Package journal holds the Journal, the actor that writes a leader's decisions to the store. One transaction is in
// flight at a time, and a write that nobody knows the fate of is settled before the next. Nothing else of a leader
// writes.
package journal

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/clock/backoff"
)

// TookJournal is the distribution of how long a write took.
const TookJournal = "journal.write"

// Journal owns the leader's way to disk: what waits to be made durable, and the
// one transaction that is on its way. Nobody acts on a write before the Journal
// says that it is on disk, and what it says is definite.
//
// It tells: whoever asked to write (Written, and Unwritten as soon as that takes
// long), the host (Deposed), the gateway (Unwritable). It asks: the store (Apply),
// the clock.
//
// There are two lanes. Decisions go first, so that a burst of submits cannot
// hold up a cancel; they are bounded by the live attempts. Submits are bounded
// here, and past the bound their clients are told to come later.
//
// One transaction is in flight at a time. Two would finish sooner, and would
// make doubt unbounded: while an answer is missing, the same batch is written
// again under a new ticket until the store says what became of it. That is
// harmless, because each change is a compare-and-set that recognises itself by
// written_by. Reading instead would not do: the lost write may still land after
// a read that found nothing.
type Journal struct {
	actors.States[journalState]
	p         *protocol.Ports
	decisions lane
	submits   lane
	flight    []pending       // what the transaction in flight writes, in order
	changes   []actors.Change // the same, as the store is given it
	ticket    uint64          // of the latest try
	sent      actors.Instant  // when that try was handed to the store
	pause     time.Duration
	trouble   string // why the transaction in flight is not on disk yet; empty: nothing is wrong
	watch     uint64 // the latest alarm for silence; an older one is stale
	watching  bool
}

// pending is one write that is not answered yet. Its records are never changed
// by anyone after they were handed over, since they may have to be written again.
type pending struct {
	change actors.Change
	tag    any
	asker  *actor.PID
	lane   protocol.Lane
	bytes  int
}

type (
	// retryWrite ends the pause after the try with this ticket.
	retryWrite struct{ ticket uint64 }
	// watchStore looks whether the store has been silent for too long.
	watchStore struct{ seq uint64 }
)

// Counters for operators.
const (
	countJournalBatches   = "journal.batches"
	countJournalChanges   = "journal.changes"
	countJournalConflicts = "journal.conflicts"
	countJournalDoubts    = "journal.doubts"
	countJournalFull      = "journal.full"
)

func New(p *protocol.Ports) actor.Actor {
	return &Journal{States: actors.NewStates(&Table, p.Host), p: p}
}

// Receive fences, then dispatches: once deposed, nothing is written, retried or
// answered any more, ever.
func (j *Journal) Receive(ctx actor.Context) {
	if j.In(journalDeposed) {
		return
	}
	switch m := ctx.Message().(type) {
	case protocol.Write:
		j.onWrite(ctx, m)
	case actors.Applied:
		j.onApplied(ctx, m)
	case retryWrite:
		j.onRetry(ctx, m)
	case watchStore:
		j.onWatch(ctx, m)
	default:
		return
	}
	j.check()
}

// onWrite lets a write wait in its lane, and starts a transaction if none is in flight.
func (j *Journal) onWrite(ctx actor.Context, m protocol.Write) {
	w := pending{change: m.Change, tag: m.Tag, asker: ctx.Sender(), lane: m.Lane, bytes: bytesOf(m.Change)}
	switch m.Lane {
	case protocol.LaneDecisions:
		j.decisions.push(w)
	case protocol.LaneSubmits:
		if j.submits.len() >= j.p.Constants.SubmitsQueued || j.submits.bytes+w.bytes > j.p.Constants.SubmitBytesQueued {
			j.p.Host.Count(countJournalFull, 1)
			j.answer(ctx, w, protocol.Written{Tag: w.tag, Full: true})
			return
		}
		j.submits.push(w)
	default:
		panic("a write names no lane: whether it may wait is not known")
	}
	if j.trouble != "" {
		j.warn(ctx, w)
	}
	if j.In(journalIdle) {
		j.becomeWriting(ctx)
	}
}

// onApplied takes the store's word on the transaction in flight. An answer to
// an earlier try is no news: the latest try is what settles the doubt.
func (j *Journal) onApplied(ctx actor.Context, m actors.Applied) {
	if !j.In(journalWriting) || m.Ticket != j.ticket {
		return
	}
	switch {
	case m.Deposed:
		j.becomeDeposed()
	case m.Err != "":
		j.becomeDoubting(ctx, "error", m.Err)
	default:
		j.settle(ctx, m.Verdicts)
	}
}

// settle answers everybody in the transaction, in the order they were written,
// and goes on with those who came meanwhile.
func (j *Journal) settle(ctx actor.Context, verdicts []actors.Verdict) {
	if len(verdicts) != len(j.flight) {
		panic("the store answered for another number of changes than it was given")
	}
	j.p.Host.Took(TookJournal, j.p.Clock.Now().Since(j.sent))
	j.p.Host.Count(countJournalBatches, 1)
	j.p.Host.Count(countJournalChanges, int64(len(verdicts)))
	for i, w := range j.flight {
		switch verdicts[i] {
		case actors.Done:
		case actors.Conflict:
			j.p.Host.Count(countJournalConflicts, 1)
		default:
			panic("the store's verdict is neither done nor conflict")
		}
		j.answer(ctx, w, protocol.Written{Tag: w.tag, Verdict: verdicts[i]})
	}
	j.becomeIdle()
	if j.decisions.len()+j.submits.len() > 0 {
		j.becomeWriting(ctx)
	}
}

// answer tells an asker; a sender without an address wants no answer.
func (j *Journal) answer(ctx actor.Context, w pending, a protocol.Written) {
	if w.asker != nil {
		ctx.Send(w.asker, a)
	}
}

func (j *Journal) onRetry(ctx actor.Context, m retryWrite) {
	if !j.In(journalDoubting) || m.ticket != j.ticket {
		return
	}
	j.Become("retry", journalWriting)
	j.apply(ctx)
}

// onWatch takes a store that says nothing for one that may have written: the
// answer can be lost as well as the transaction. One alarm is set at a time and
// set again for the rest, because one per transaction would leave thousands of
// stale alarms with the clock.
func (j *Journal) onWatch(ctx actor.Context, m watchStore) {
	if m.seq != j.watch {
		return
	}
	j.watching = false
	if !j.In(journalWriting) {
		return
	}
	silent, slow := j.p.Clock.Now().Since(j.sent), j.p.Constants.JournalSlow
	switch {
	case silent >= j.p.Constants.JournalSilence:
		j.becomeDoubting(ctx, "silence", "the store does not answer")
	case silent >= slow:
		j.troubled(ctx, "the store does not answer")
		j.setWatch(ctx, j.p.Constants.JournalSilence-silent)
	default:
		j.setWatch(ctx, slow-silent)
	}
}

// troubled tells everybody who waits for the disk why. Later writes are told when they come.
func (j *Journal) troubled(ctx actor.Context, why string) {
	if j.trouble == why {
		return
	}
	j.trouble = why
	j.p.SayUnwritable(why)
	for _, w := range j.flight {
		j.warn(ctx, w)
	}
	for _, w := range j.decisions.waiting[j.decisions.head:] {
		j.warn(ctx, w)
	}
}

// warn tells an asker that its decision is not on disk yet. The clients of submits are answered by the gateway.
func (j *Journal) warn(ctx actor.Context, w pending) {
	if w.asker != nil && w.lane == protocol.LaneDecisions {
		ctx.Send(w.asker, protocol.Unwritten{Tag: w.tag, Why: j.trouble})
	}
}

func (j *Journal) setWatch(ctx actor.Context, d time.Duration) {
	j.watch++
	j.watching = true
	j.p.Clock.After(d, ctx.Self(), watchStore{j.watch})
}

func (j *Journal) becomeIdle() {
	j.Become("applied", journalIdle)
	clear(j.flight)
	// The slice of changes is left as it is: a store that lost its answer may still be at it.
	j.flight, j.changes = j.flight[:0], nil
	j.pause = 0
	if j.trouble != "" {
		j.trouble = ""
		j.p.SayUnwritable("")
	}
}

// becomeWriting makes one transaction of what waits, decisions first.
func (j *Journal) becomeWriting(ctx actor.Context) {
	j.Become("write", journalWriting)
	j.fill()
	// The store may still be reading the changes of an earlier try of the last
	// transaction, so its slice is never used for the next one.
	j.changes = make([]actors.Change, len(j.flight))
	for i := range j.flight {
		j.changes[i] = j.flight[i].change
	}
	j.apply(ctx)
}

// apply hands the transaction to the store, for the first time or again.
func (j *Journal) apply(ctx actor.Context) {
	j.ticket++
	j.sent = j.p.Clock.Now()
	j.p.Store.Apply(j.p.Epoch, j.ticket, j.changes, ctx.Self())
	if !j.watching {
		j.setWatch(ctx, j.p.Constants.JournalSlow)
	}
}

// becomeDoubting pauses before the same transaction is written again: the
// database is likely down, and hammering it does not bring it back.
func (j *Journal) becomeDoubting(ctx actor.Context, event, why string) {
	if j.pause == 0 {
		j.p.Log.Info("JOURNAL: %d writes in doubt (%s): retrying until the store confirms "+
			"them", len(j.flight), why)
	}
	j.pause = backoff.Next(j.pause, j.p.Constants.JournalRetry, j.p.Constants.ResendCap)
	j.p.Host.Count(countJournalDoubts, 1)
	j.troubled(ctx, why)
	j.Become(event, journalDoubting)
	j.p.Clock.After(j.pause, ctx.Self(), retryWrite{j.ticket})
}

// becomeDeposed lets go of everything. Nobody is answered: whoever waits here
// belongs to a leader that is no more, and must not act on anything.
func (j *Journal) becomeDeposed() {
	j.Become("deposed", journalDeposed)
	j.p.Log.Info("JOURNAL: epoch %d no longer leads: %d writes are not acknowledged", j.p.Epoch,
		len(j.flight)+j.decisions.len()+j.submits.len())
	j.flight, j.changes, j.decisions, j.submits = nil, nil, lane{}, lane{}
	j.p.Host.Deposed(j.p.Epoch)
}

// idle reports whether nothing waits and nothing is in flight.
func (j *Journal) idle() bool { return j.In(journalIdle) }

// pending counts the decisions and submits that wait for a transaction; those
// in flight are in neither.
func (j *Journal) pending() (decisions, submits int) { return j.decisions.len(), j.submits.len() }

// check holds after every message.
func (j *Journal) check() {
	waiting := j.decisions.len() + j.submits.len()
	switch {
	case j.In(journalIdle, journalDeposed) && len(j.flight)+waiting > 0:
		panic("the journal is " + string(j.At()) + " with writes that wait")
	case j.In(journalWriting, journalDoubting) && len(j.flight) == 0:
		panic("the journal is " + string(j.At()) + " and there is nothing to write")
	case len(j.flight) > j.p.Constants.JournalBatch:
		panic("the transaction in flight is larger than its limit")
	case j.submits.len() > j.p.Constants.SubmitsQueued:
		panic("more submits wait than the limit says")
	case j.In(journalWriting) && !j.watching:
		panic("the journal writes and nothing would wake it if the store stayed silent")
	}
}
