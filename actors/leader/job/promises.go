package job

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns how a Job writes its start guarantee. The Job writes it if its nodes change or if one more overrun
// must be counted, but not if only its latest start becomes earlier.

// firmWish is the start guarantee that the Scheduler wants. Without a promise, it means that there is none.
type firmWish struct {
	promise *messages.Promise
	since   actors.Instant // when the job received it; another write may be in flight
}

// agedPromise is a guarantee as requested, and as drafted later with less time left.
type agedPromise struct{ asked, drafted *messages.Promise }

// onPromised schedules the write of the guarantee, unless the job no longer waits.
func (j *Job) onPromised(ctx actor.Context, m protocol.Promised) {
	if m.Promise != nil && (j.cancel != nil || j.kept() || j.att != nil || j.rec.State.Terminal()) {
		return
	}
	j.firm = &firmWish{m.Promise, j.p.Clock.Now()}
	j.advance(ctx)
}

// tellPromise sends the Scheduler the guarantee that is on disk.
func (j *Job) tellPromise(ctx actor.Context) {
	m := protocol.PromiseWritten{Job: j.id, Promise: j.rec.Promise, Asked: j.rec.Promise}
	if j.aged.drafted == m.Promise {
		m.Asked = j.aged.asked
	}
	ctx.Send(j.peers.Scheduler, m)
}

// unpromise gives up the start guarantee with the next write.
func (j *Job) unpromise() { j.firm = &firmWish{} }

// age returns the requested promise with the time that is left of it now. The record says for how long nodes stay
// reserved from the write on. Without the correction, a next leader would reserve them longer by the duration of the
// write before.
func (j *Job) age(written *messages.Promise) *messages.Promise {
	p, waited := j.firm.promise, j.p.Clock.Now().Since(j.firm.since).Milliseconds()
	switch {
	case p == nil:
		return nil
	case j.aged == agedPromise{p, written}:
		return written // it is on disk as drafted then
	case p == written || p.LeftMs == 0 || waited == 0:
		return p
	}
	aged := proto.Clone(p).(*messages.Promise)
	aged.LeftMs = max(p.LeftMs-waited, 1)
	j.aged = agedPromise{p, aged}
	return aged
}

// draftPromise adds the guarantee to the record. It goes with COMMIT, a hold, and the job's end, in the same write.
func (j *Job) draftPromise(d *draft) {
	d.firm = j.firm
	promise := d.rec.Promise
	if j.firm != nil {
		promise = j.age(d.rec.Promise)
	}
	if d.committed || d.rec.Hold != nil || d.rec.Cancel != nil || d.rec.State.Terminal() {
		promise = nil
	}
	if promise != d.rec.Promise {
		d.rec.Promise, d.dirty = promise, true
	}
}

// The rest of this file owns how a Job ends its attempt for another job, and how it continues if it is spared in time.

// onPreempt ends the attempt, or gives up one before COMMIT.
func (j *Job) onPreempt(ctx actor.Context, m protocol.Preempt) {
	switch {
	case !j.heir.from.IsZero() && (j.heir.from == m.Token || j.heir.next != nil && j.heir.next.Token == m.Token):
		j.preemption = m.For
		j.stopHeir(ctx, protocol.MoveOff{Cause: messages.Cause_CAUSE_PREEMPTED, Detail: wordsOfPreemption(m.For)})
	case j.att != nil && messages.FromToken(j.att.Token) == m.Token:
		j.preemption = m.For
		j.finishSaved(ctx, messages.Cause_CAUSE_PREEMPTED, wordsOfPreemption(m.For), m.For.GetForJob())
	case j.states.In(jobReserving, jobDeciding) && j.token == m.Token:
		j.preemption = m.For
		j.moved = &protocol.MoveOff{Cause: messages.Cause_CAUSE_PREEMPTED, Detail: wordsOfPreemption(m.For)}
		j.advance(ctx)
	}
}

// onSpared lets an attempt continue if its end is not on its way to disk.
func (j *Job) onSpared(ctx actor.Context, m protocol.Spared) {
	if j.preemption.GetForJob() != string(m.For) || j.token != m.Token {
		return
	}
	if j.end.GetPreemption() == j.preemption && !(j.writing && j.next.ended) {
		j.end = nil
	}
	if end := j.saving.then; end != nil && end.Preemption == j.preemption && j.warns() {
		j.withdrawEnd(ctx)
	}
	if j.moved != nil && j.moved.Cause == messages.Cause_CAUSE_PREEMPTED {
		j.moved = nil
	}
	j.advance(ctx)
}

// wordsOfPreemption returns the job for which an attempt is stopped, the rule, and the lost work, as text.
func wordsOfPreemption(p *messages.Preemption) string {
	why := "which has a higher priority"
	switch p.Rule {
	case messages.PreemptionRule_PREEMPTION_RULE_RECLAIM:
		why = "whose queue reclaims its quota"
	case messages.PreemptionRule_PREEMPTION_RULE_SHORTEST:
		why = "which is expected to be much shorter"
	}
	return fmt.Sprintf("preempted for job %s, %s; at most %s GPU-hours of work are lost", p.ForJob, why,
		messages.GPUHours(p.LostMilliGpuSeconds))
}

// notePreempted counts an attempt that is stopped for another job. It counts against no limit.
func notePreempted(rec *messages.JobRecord, end *messages.End, by int32) {
	if end.GetCause() != messages.Cause_CAUSE_PREEMPTED {
		return
	}
	rec.Preemptions += by
	if protocol.IsInside(end) {
		rec.Outranked += by
	}
}
