package job

import (
	"cmp"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
	"github.com/yi-json/synapse/topology"
)

// This file owns a Job's writes. One write is in flight at a time. It carries everything that is due: evidence, COMMIT,
// ENDED, a cancel, the final state. Its effects follow only when it is on disk.

// draft holds the records as they will be after a write.
type draft struct {
	rec       *messages.JobRecord
	att       *messages.AttemptRecord
	owed      []*messages.AttemptRecord
	touched   []*messages.AttemptRecord
	askers    []protocol.Asker
	wish      *protocol.HoldWish // included in the write
	respec    *protocol.SpecWish // included in the write
	firm      *firmWish          // included in the write
	foregone  int                // number of dependencies' ends in the write
	dirty     bool
	committed bool // COMMIT is in it
	ended     bool // ENDED is in it
	closed    bool // the attempt or the job ends with it
}

// advance starts the next write if one is due and none is in flight.
func (j *Job) advance(ctx actor.Context) {
	if j.writing || j.states.In(jobBorn, jobOver) {
		return
	}
	if j.decide != nil && j.mayNotCommit() {
		j.withdraw(ctx)
	}
	j.reviewHeir(ctx)
	j.answerTooLate(ctx)
	d := j.compose()
	if !d.dirty {
		if j.firm != nil { // the guarantee on disk is all that counts
			j.firm = nil
			j.tellPromise(ctx)
		}
		j.rest(ctx)
		return
	}
	if d.closed && j.states.In(jobQueued, jobReserving) {
		ctx.Send(j.peers.Scheduler, protocol.Withdraws{Job: j.id})
		j.halt(ctx)
		j.states.Become("closed", jobClosing)
	}
	j.writes++
	d.rec.Revision++
	d.rec.WrittenBy = &messages.Token{Epoch: j.p.Epoch, Counter: j.life<<32 | uint64(j.writes)}
	j.writing, j.next = true, d
	ctx.Request(j.peers.Journal, protocol.Write{Lane: protocol.LaneDecisions, Change: actors.Change{Job: d.rec,
		Attempts: d.touched},
		Tag: d.rec.WrittenBy.Counter})
}

// mayNotCommit reports whether a commit is no longer allowed: reservations may have expired, or the job was cancelled.
// A lost or returned node may also run an earlier attempt, or an earlier attempt turned out to be successful.
func (j *Job) mayNotCommit() bool {
	return j.p.Clock.Now() >= j.decide.DecideBy || j.cancel != nil || j.moved != nil || j.barred() || j.misses() != "" ||
		slices.ContainsFunc(j.owed, func(a *messages.AttemptRecord) bool { return finishedByItself(j.withExits(a)) })
}

// compose drafts the next write from the records on disk and the known changes.
func (j *Job) compose() draft {
	d := draft{rec: j.rec.Revise(), att: j.att, owed: append([]*messages.AttemptRecord(nil), j.owed...)}
	d.askers, j.askers = j.askers, nil
	j.draftDeeds(&d)
	j.draftUID(&d)
	if d.att != nil {
		d.att = j.draftExits(&d, d.att)
	}
	for i, a := range d.owed {
		d.owed[i] = j.draftExits(&d, a)
	}
	switch {
	case j.decide != nil:
		j.draftCommit(&d)
	case j.heirReady() && d.att != nil && j.awaitsHeir(&d):
		j.draftHeir(&d)
	case d.att != nil:
		j.draftSaved(&d)
		j.draftEnd(&d)
	}
	j.draftAfter(&d)
	j.draftClose(&d)
	j.draftPromise(&d)
	d.settleOwed()
	if !d.dirty {
		j.askers = d.askers
	}
	return d
}

func (j *Job) draftDeeds(d *draft) {
	if j.cancel != nil && d.rec.Cancel == nil {
		d.rec.Cancel, d.dirty = j.cancel, true
	}
	if hold := j.wantedHold(); hold != d.rec.Hold {
		d.rec.Hold, d.dirty = hold, true
	}
	if j.respec != nil {
		d.rec.LimitByDefault = d.rec.LimitByDefault && j.respec.Spec.TimeLimitMs == d.rec.Spec.TimeLimitMs
		d.rec.Spec, d.rec.Changed, d.rec.GivenTo, d.dirty = j.respec.Spec, j.respec.Deed, j.respec.To, true
	}
	d.wish, d.respec = j.wish, j.respec
	if len(d.askers) > 0 {
		d.dirty = true // the clients' answers need a write
	}
}

// draftExits adds new exit evidence. It never replaces any: the first report of a member's exit counts.
func (j *Job) draftExits(d *draft, a *messages.AttemptRecord) *messages.AttemptRecord {
	if next := j.withExits(a); next != a {
		d.touch(next)
		return next
	}
	return a
}

// withExits returns an attempt with all received exit evidence.
func (j *Job) withExits(a *messages.AttemptRecord) *messages.AttemptRecord {
	news := j.exits[messages.FromToken(a.Token)]
	if len(news) == 0 {
		return a
	}
	a = a.Revise()
	a.Places = slices.Clone(a.Places)
	for i, p := range a.Places {
		if e := news[p.Rank]; e.Exit != nil && p.Exit == nil {
			a.Places[i] = p.Revise()
			a.Places[i].Exit = verdict.WithoutText(e.Exit)
		}
	}
	return a
}

// touch adds an attempt to the write. A later version of the attempt replaces an earlier one.
func (d *draft) touch(a *messages.AttemptRecord) {
	d.dirty = true
	for i, t := range d.touched {
		if messages.FromToken(t.Token) == messages.FromToken(a.Token) {
			d.touched[i] = a
			return
		}
	}
	d.touched = append(d.touched, a)
}

func (j *Job) draftCommit(d *draft) {
	d.rec.State = messages.JobState_JOB_STATE_ACTIVE
	d.rec.Attempt = messages.ToToken(j.decide.Token)
	d.rec.Runs++
	d.rec.NotBeforeUnixMs = 0
	d.att = &messages.AttemptRecord{
		Job: string(j.id), Token: d.rec.Attempt, Run: d.rec.Runs,
		Places: j.decide.Places, Rendezvous: j.decide.Meet, CommittedUnixMs: j.p.Clock.WallMs(),
		Told: j.told, StartByLeftMs: j.startByLeftMs(), Victims: j.victims,
		ReservingMs: wholeMs(j.decide.Took), Spares: j.spares,
	}
	d.committed = true
	d.touch(d.att)
}

// wholeMs returns a known duration in ms, at least 1. The value 0 means unknown.
func wholeMs(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return max(d.Milliseconds(), 1)
}

// draftEnd records the barrier's time and decides whether the attempt has ended. If every member succeeded, success
// takes precedence over any other cause.
func (j *Job) draftEnd(d *draft) {
	if d.att.End != nil {
		return
	}
	end := j.endOfSaved(j.verdictOf(d.att))
	if end == nil {
		end = j.end
	}
	if end == nil && d.rec.Cancel != nil {
		// The cancel came while COMMIT was on its way to disk, when there was no attempt to end yet.
		end = &messages.End{Cause: messages.Cause_CAUSE_CANCELLED, Detail: d.rec.Cancel.Reason, Rank: -1}
	}
	if end == nil && j.started == 0 {
		return
	}
	a := d.att.Revise()
	if j.started != 0 && a.StartedUnixMs == 0 {
		a.StartedUnixMs, a.PreparingMs = j.started, wholeMs(j.prepared)
	}
	if end != nil {
		if j.end != nil && end.Cause != messages.Cause_CAUSE_SUCCEEDED {
			end = j.end
		}
		end.AtUnixMs, end.RanMs = j.p.Clock.WallMs(), j.ranMs(a)
		a.End, a.Verdict, a.Missed, d.ended = end, j.judge(a, end), j.missed(end), true
		end.HoldMs = j.holdFor(d.rec, a, end).Milliseconds()
		notePreempted(d.rec, end, 1)
	}
	d.att = a
	d.touch(a)
}

// draftClose closes the attempt after every reachable node has delivered its evidence. In the same write, allocations
// on unreachable nodes become unconfirmed.
func (j *Job) draftClose(d *draft) {
	if d.committed || d.rec.State.Terminal() {
		return
	}
	if d.att == nil {
		for _, a := range d.owed {
			if finishedByItself(a) {
				concludeLate(d.rec, a, j.p.Clock.WallMs())
				d.closed, d.dirty = true, true
				return
			}
		}
		if words := cmp.Or(protocol.WhyCancelled(d.rec), j.misses()); words != "" {
			protocol.Conclude(d.rec, messages.JobState_JOB_STATE_CANCELLED, 0, words, j.p.Clock.WallMs())
			d.closed, d.dirty = true, true
		}
		return
	}
	if d.att.End == nil || !j.evidenceComplete(d.att) || j.awaitsHeir(d) {
		return
	}
	if judged := j.judgeAgain(d.att); judged != d.att {
		d.att = judged
		d.touch(judged)
	}
	j.closeAttempt(d.rec, d.att)
	d.owed = append(d.owed, d.att) // settleOwed drops it if nothing is unconfirmed
	d.att = nil
	d.closed, d.dirty = true, true
}

func (j *Job) evidenceComplete(a *messages.AttemptRecord) bool {
	for _, p := range a.Places {
		if p.Exit == nil && j.contacts[topology.NodeID(p.Node)].up {
			return false
		}
	}
	return true
}

func (d *draft) settleOwed() {
	kept := d.owed[:0]
	for _, a := range d.owed {
		if a.Owes() {
			kept = append(kept, a)
		}
	}
	d.owed = kept
}

// onUnwritten shows why a decision about the job has no effect yet.
func (j *Job) onUnwritten(ctx actor.Context, m protocol.Unwritten) {
	if j.writing && m.Tag == j.next.rec.WrittenBy.Counter && j.unwritten != m.Why {
		j.unwritten = m.Why
		j.show(ctx)
	}
}

// onWritten replaces the records by the draft and runs the effects that it allows.
func (j *Job) onWritten(ctx actor.Context, m protocol.Written) {
	if !j.writing || m.Tag != j.next.rec.WrittenBy.Counter {
		return // the answer belongs to an earlier actor of this job with the same name
	}
	if m.Verdict != actors.Done {
		// Another actor wrote the record: an earlier actor of this job, whose write was still on its way. The record on disk
		// is valid, and this actor's state is not.
		ctx.Send(j.peers.Scheduler, protocol.Stale{Job: j.id})
		return
	}
	d := j.next
	news := j.newlyGone(d.touched)
	j.writing, j.next, j.unwritten = false, draft{}, ""
	respecified := d.rec.Spec != j.rec.Spec
	limited := d.rec.Spec.TimeLimitMs != j.rec.Spec.TimeLimitMs
	saves := d.att.GetSaved() != j.att.GetSaved() && d.att.GetSaved() != nil
	promises := d.firm != nil || d.rec.Promise != j.rec.Promise
	was := j.att
	j.rec, j.att, j.owed = d.rec, d.att, d.owed
	starts := j.started != 0
	if j.absorb(d); starts && j.started == 0 {
		j.tellStart(ctx)
	}
	if limited && j.counting() {
		j.armTimeLimit(ctx, j.limitFrom)
	}
	if saves && !j.states.In(jobStopping) {
		j.foretell(ctx, 0)
	}
	if respecified && j.states.In(jobReserving, jobDeciding, jobStarting, jobRunning) {
		j.foretell(ctx, 0)
	}
	if promises {
		j.tellPromise(ctx)
	}
	if d.ended {
		ctx.Send(j.peers.Scheduler, protocol.AttemptEnded{Job: j.id, Token: messages.FromToken(j.last.Token),
			End: j.last.End, Saved: j.last.Saved, Before: actors.Millis(j.last.InPlaceMs)})
		j.countLost(j.last)
	}
	j.accuse(ctx, d.touched)
	for _, n := range news {
		j.forgetAt(ctx, n.attempt, n.node)
	}
	switch {
	case d.committed && j.att.Inherited != nil:
		j.afterHeir(ctx, was)
	case d.committed:
		j.afterCommit(ctx)
	case d.closed:
		if was != nil {
			j.closeHeirless(ctx, was)
		}
		j.afterClose(ctx, d)
	case d.ended:
		j.afterEnd(ctx)
	default:
		j.afterUID(ctx)
	}
	j.show(ctx) // before the answers, because a client may query at once
	for _, a := range d.askers {
		ctx.Send(a.PID, a.Answer())
	}
	if j.states.In(jobQueued) {
		j.wait(ctx)
	}
	j.advance(ctx)
}

// absorb drops the requested changes that are now on disk.
func (j *Job) absorb(d draft) {
	for _, a := range d.touched {
		token := messages.FromToken(a.Token)
		if token == messages.FromToken(j.rec.Attempt) {
			j.last = a
		}
		for _, p := range a.Places {
			if p.Exit != nil {
				delete(j.exits[token], p.Rank)
			}
		}
		if len(j.exits[token]) == 0 {
			delete(j.exits, token)
		}
	}
	if j.rec.Cancel != nil {
		j.cancel = nil
	}
	if j.wish == d.wish {
		j.wish = nil // otherwise a newer one came during the write
	}
	if j.respec == d.respec {
		j.respec = nil
	}
	if j.firm == d.firm {
		j.firm = nil
	}
	j.foregone = j.foregone[d.foregone:]
	if d.ended {
		j.end = nil
	}
	if j.saving.fresh == j.att.GetSaved() {
		j.saving.fresh = nil
	}
	if j.att == nil || j.att.StartedUnixMs != 0 {
		j.started = 0
	}
}

// afterCommit handles the commit point. From now on the attempt is ended instead of aborted.
func (j *Job) afterCommit(ctx actor.Context) {
	j.decide, j.targets = nil, nil
	j.states.Become("committed", jobStarting)
	log := actors.About(j.p.Log, actors.FieldAttempt, messages.FromToken(j.att.Token).String)
	log.Info("Successfully scheduled Job %s to Nodes [%s]", j.id, nodeList(j.att))
	ctx.Send(j.coordinator, protocol.Decided{})
	if j.promised {
		ctx.Send(j.peers.Scheduler, protocol.Redeemed{Job: j.id})
	}
	if m := j.moved; m != nil {
		j.finish(ctx, m.Cause, m.Detail, m.Node)
	}
}

// afterEnd stops the nodes, because the cause is on disk.
func (j *Job) afterEnd(ctx actor.Context) {
	j.blame(ctx)
	if j.last.End.Cause == messages.Cause_CAUSE_START_BY {
		j.lent = max(j.lent, j.ready)
	}
	j.halt(ctx)
	j.states.Become("ended", jobStopping)
	j.expectHeir(ctx)
	j.stopAll(ctx)
	j.resend.Begin(ctx, &j.p.Ports)
}

func (j *Job) afterClose(ctx actor.Context, d draft) {
	if j.states.In(jobStarting, jobRunning) {
		j.afterEnd(ctx)
	}
	if j.rec.State.Terminal() {
		j.states.Become("finished", jobSettling)
		ctx.Send(j.peers.Scheduler, protocol.Concluded{Job: j.id, State: j.rec.State, Since: j.rec.Since()})
		j.logEnd()
		return
	}
	j.states.Become("requeued", jobQueued)
	j.backOff()
}

// rest runs when there is nothing to write. It ends a finished job that has no unconfirmed allocation and no
// Coordinator that cleans up.
func (j *Job) rest(ctx actor.Context) {
	j.askHeir(ctx)
	if j.states.In(jobSettling) && len(j.owed) == 0 && len(ctx.Children()) == 0 {
		j.states.Become("evidence", jobOver)
		j.resend.End()
		ctx.Send(j.peers.Scheduler, protocol.Settled{Job: j.id})
	}
}
