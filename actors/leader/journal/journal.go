// Package journal holds the Journal, the actor that writes a leader's decisions to the store. One transaction is in
// flight at a time, and a write with an unknown result is settled before the next. All writes of a leader go through
// the Journal.
package journal

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/clock/backoff"
)

// TookJournal names the distribution of write durations.
const TookJournal = "journal.write"

// Journal owns the leader's writes: those that wait, and the one transaction in flight. No actor acts on a write before
// the Journal confirms that it is on disk. The Journal's answer is definite.
//
// The Journal sends messages to the writers (Written, and Unwritten if a write takes long), to the host (Deposed) and
// to the gateway (Unwritable). It sends requests to the store (Apply) and to the clock.
//
// There are two lanes. Decisions go first, so a burst of submits cannot delay a cancel. Their number is limited by the
// number of live attempts. The number of submits has a limit here, beyond which clients must retry later.
//
// One transaction is in flight at a time. Two would be faster, but any number of writes could then be in doubt. While
// an answer is missing, the same batch is written again under a new ticket until the store returns the result. The
// repetition is harmless: each change is a compare-and-set that recognizes its own earlier write by written_by. Reading
// the store instead would not be enough, because the lost write may still arrive after a read that found nothing.
type Journal struct {
	actors.States[journalState]
	p         *protocol.Ports
	decisions lane
	submits   lane
	flight    []pending       // the writes of the transaction in flight, in order
	changes   []actors.Change // the same, as the store gets them
	ticket    uint64          // of the latest attempt
	sent      actors.Instant  // when the store got that attempt
	pause     time.Duration
	trouble   string // why the transaction in flight is not on disk yet; empty: no problem
	watch     uint64 // the latest silence alarm; older ones are stale
	watching  bool
}

// pending is one write without an answer. Its records must not change after the write was sent, because the Journal may
// have to write them again.
type pending struct {
	change actors.Change
	tag    any
	asker  *actor.PID
	lane   protocol.Lane
	bytes  int
}

type (
	// retryWrite ends the pause after the attempt with this ticket.
	retryWrite struct{ ticket uint64 }
	// watchStore is the timer that checks for a silent store.
	watchStore struct{ seq uint64 }
)

// These are counters for operators.
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

// Receive checks for deposition, then dispatches. After deposition, the Journal never writes, retries or answers again.
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

// onWrite adds a write to its lane, and starts a transaction if none is in flight.
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

// onApplied handles the store's answer about the transaction in flight. It ignores answers to earlier attempts, because
// only the latest attempt settles the doubt.
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

// settle answers all writers of the transaction in order, and continues with the writes that came meanwhile.
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

// answer sends the result to the writer. A writer without an address gets no answer.
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

// onWatch treats a silent store like an error: an answer can be lost as well as a transaction. Only one alarm is set at
// a time, and set again for the remaining time. One alarm per transaction would leave thousands of stale alarms in the
// clock.
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

// troubled reports the problem to all writers that wait. Later writers are notified when they come.
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

// warn reports that a decision is not on disk yet. The gateway answers the clients of submits.
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
	// The slice of changes is kept, because a store whose answer was lost may still be using it.
	j.flight, j.changes = j.flight[:0], nil
	j.pause = 0
	if j.trouble != "" {
		j.trouble = ""
		j.p.SayUnwritable("")
	}
}

// becomeWriting combines the waiting writes into one transaction, decisions first.
func (j *Journal) becomeWriting(ctx actor.Context) {
	j.Become("write", journalWriting)
	j.fill()
	// The store may still read the changes of an earlier attempt, so each transaction gets a new slice.
	j.changes = make([]actors.Change, len(j.flight))
	for i := range j.flight {
		j.changes[i] = j.flight[i].change
	}
	j.apply(ctx)
}

// apply sends the transaction to the store, for the first time or again.
func (j *Journal) apply(ctx actor.Context) {
	j.ticket++
	j.sent = j.p.Clock.Now()
	j.p.Store.Apply(j.p.Epoch, j.ticket, j.changes, ctx.Self())
	if !j.watching {
		j.setWatch(ctx, j.p.Constants.JournalSlow)
	}
}

// becomeDoubting pauses before the same transaction is written again. The database is probably down, and immediate
// repeats would not help.
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

// becomeDeposed drops all writes without an answer. The writers belong to a leader that no longer leads and must not
// act.
func (j *Journal) becomeDeposed() {
	j.Become("deposed", journalDeposed)
	j.p.Log.Info("JOURNAL: epoch %d no longer leads: %d writes are not acknowledged", j.p.Epoch,
		len(j.flight)+j.decisions.len()+j.submits.len())
	j.flight, j.changes, j.decisions, j.submits = nil, nil, lane{}, lane{}
	j.p.Host.Deposed(j.p.Epoch)
}

// idle reports whether nothing waits and nothing is in flight.
func (j *Journal) idle() bool { return j.In(journalIdle) }

// pending counts the waiting decisions and submits, without those in flight.
func (j *Journal) pending() (decisions, submits int) { return j.decisions.len(), j.submits.len() }

// check verifies the invariants of the Journal. It runs after every message.
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
