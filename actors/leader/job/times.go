package job

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/clock/backoff"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a Job counts in time: backoffs, fences and the time limit.
// All of it is counted on this process's own steady clock. What an earlier leader
// had counted of a backoff or a fence is lost with it, and waited for again in
// full; how long tasks have run their machines say, as a duration. The naive way,
// to compare what the last leader's wall clock said with our own, starts a second
// run beside the first where the two clocks differ.

// backoffAfter is how long the job waits after an attempt has ended. It follows
// from what is on disk, so that a next leader finds the same.
func (j *Job) backoffAfter(rec *messages.JobRecord, a *messages.AttemptRecord) time.Duration {
	wait, failures := actors.Millis(rec.Spec.GetRestart().GetBackoffMs()), rec.Failures
	switch {
	case neverRan(a) && a.End.Cause != messages.Cause_CAUSE_PREPARE_TIMEOUT: // one that timed out has taken its time
		wait, failures = max(wait, j.p.Constants.PrepareBackoff), rec.PrepareFailures
	case a.GetEnd().GetCause() != messages.Cause_CAUSE_MEMBER_FAILED:
		return 0
	}
	return backoff.After(int(failures), wait, j.p.Constants.BackoffCap)
}

// fencedUntil is when the supervisors on machines that cannot be reached have
// surely stopped an attempt's tasks, where the job wants that: they count from the
// last heartbeat that was acknowledged, which cannot be later than when the machine
// was last heard. Of what an earlier leader heard a machine counts as heard at the
// takeover.
func (j *Job) fencedUntil(a *messages.AttemptRecord) actors.Instant {
	if j.rec.Spec.StopWhenLostMs == 0 {
		return 0
	}
	var until actors.Instant
	for _, p := range a.Places {
		if s := j.contacts[topology.NodeID(p.Node)]; p.Exit == nil && !s.up {
			until = max(until, s.since.Plus(fenceWait(j.rec.Spec, j.p.Constants)))
		}
	}
	return until
}

// barredUntil is when the next attempt may be asked for at the earliest. A machine
// that came back and is lost again bars it again.
func (j *Job) barredUntil() actors.Instant {
	until := j.backedOff
	for _, a := range j.owed {
		until = max(until, j.fencedUntil(a))
	}
	return until
}

// barred reports whether an attempt must not be committed yet: a machine that can
// be reached has yet to give evidence of an earlier one, or the tasks on one that
// cannot may still run.
func (j *Job) barred() bool { return j.owesReachable() || j.barredUntil() > j.p.Clock.Now() }

// backOff begins to wait after the latest attempt.
func (j *Job) backOff() {
	if wait := j.backoffAfter(j.rec, j.last); wait > 0 {
		j.backedOff = j.p.Clock.Now().Plus(wait)
	}
}

// graceOf is how long the ranks of an attempt have when they are told to stop. If the barrier of a gang fails, the
// ranks that had started are ended soon: they have been alone since they began, and have nothing to save. What an
// operator or a user stops has the grace of its job. So has an attempt that an earlier leader committed, for it may
// have run for long without anybody being able to write that.
func (j *Job) graceOf(a *messages.AttemptRecord) time.Duration {
	grace := actors.GraceOf(j.rec.Spec, j.p.Constants)
	switch a.End.GetCause() {
	case messages.Cause_CAUSE_CANCELLED, messages.Cause_CAUSE_REQUEUED, messages.Cause_CAUSE_PREEMPTED:
		return grace
	}
	if a.StartedUnixMs == 0 && messages.FromToken(a.Token).Epoch == j.p.Epoch && !(a == j.att && j.begunBefore) {
		return min(grace, j.p.Constants.BarrierGrace)
	}
	return grace
}

// fenceWait is stopWhenLost and the grace after it, and 1% for clocks that drift.
func fenceWait(spec *messages.JobSpec, c actors.Constants) time.Duration {
	wait := actors.Millis(spec.StopWhenLostMs) + actors.GraceOf(spec, c)
	return wait + wait/100
}

// armTimeLimit counts the limit from when the barrier was passed, and from then too
// where it is changed later: what has been spent stays spent.
func (j *Job) armTimeLimit(ctx actor.Context, since actors.Instant) {
	j.timers++
	j.limitTimer, j.limitFrom = j.timers, since
	if limit := actors.Millis(j.rec.Spec.TimeLimitMs); limit > 0 {
		j.p.Clock.After(max(since.Plus(limit).Since(j.p.Clock.Now()), 0), ctx.Self(), timeUp{j.token, j.timers})
	}
	j.warn(ctx)
}

// counting reports whether the time of a run counts against its limit.
func (j *Job) counting() bool {
	return j.states.In(jobRunning) || j.states.In(jobStarting) && j.att.GetStartedUnixMs() != 0
}

// timeIsUp reports whether a run has gone on for as long as it may.
func (j *Job) timeIsUp() bool {
	limit := actors.Millis(j.rec.Spec.TimeLimitMs)
	return limit != 0 && j.p.Clock.Now() >= j.limitFrom.Plus(limit)
}

// prolonged reports whether more time is on its way to disk: it was asked for before
// the run had spent what it has, so the run is not ended meanwhile.
func (j *Job) prolonged() bool {
	wanted, limit := j.wantedSpec().TimeLimitMs, j.rec.Spec.TimeLimitMs
	return wanted != limit && (wanted == 0 || wanted > limit)
}

// noteBegun learns from a machine since when the attempt of an earlier leader has
// run there. Each began before the barrier was passed: the last of them is as near
// to that as anybody can say. One that has not begun proves that it was not passed, also where its
// processes are only being started; an agent of an earlier version does not say, and counts as one.
func (j *Job) noteBegun(m protocol.Sighted) {
	if j.att == nil || messages.FromToken(j.att.Token) != m.Token || !j.states.In(jobStarting) {
		return
	}
	switch {
	case m.Slice.State <= messages.SliceState_SLICE_STATE_STARTED && m.Slice.RanMs == 0:
		j.begunBefore = false
	case m.Slice.RanMs > 0:
		j.begun = max(j.begun, m.Heard.Plus(-actors.Millis(m.Slice.RanMs)))
	}
}

// passedBarrier is when the attempt passed its barrier, which may have been under
// an earlier leader: by what its machines say, and where none does, now.
func (j *Job) passedBarrier() actors.Instant {
	if j.begunBefore && j.begun != 0 {
		return min(j.begun, j.p.Clock.Now())
	}
	return j.p.Clock.Now()
}

// ranMs is for how long an attempt has run since its barrier; 0 where it has not passed it, or where that was under
// an earlier leader and its machines do not say for how long.
func (j *Job) ranMs(a *messages.AttemptRecord) int64 {
	told := j.begunBefore && j.begun != 0
	if a.StartedUnixMs == 0 || (j.begunBefore || j.ranBefore) && !told {
		return 0
	}
	from := j.limitFrom
	if !j.states.In(jobRunning) {
		from = j.passedBarrier()
	}
	return max(j.p.Clock.Now().Since(from).Milliseconds(), 1)
}

// What follows owns what a Job says of when its attempt's room is free again.

// foretell tells the Scheduler what is known of the end of the attempt at which the job is. began is when it
// passed its barrier; 0: that is as it was.
func (j *Job) foretell(ctx actor.Context, began actors.Instant) {
	ctx.Send(j.peers.Scheduler, protocol.Foreseen{Job: j.id, Token: j.token, Spec: j.rec.Spec, Began: began})
}

// foretellResumed does so for one that an earlier leader committed: all phases begin again, and its limit counts
// from now where it has begun, until its machines have been heard.
func (j *Job) foretellResumed(ctx actor.Context) {
	starts := j.p.Clock.Now()
	if j.att.StartedUnixMs == 0 {
		starts = starts.Plus(protocol.UntilBarrier(j.rec.Spec, &j.p.Constants))
		if left := actors.Millis(j.att.StartByLeftMs); left > 0 {
			starts = min(starts, j.p.Clock.Now().Plus(left))
		}
	}
	ctx.Send(j.peers.Scheduler, protocol.Foreseen{Job: j.id, Token: j.token, Spec: j.rec.Spec, Starts: starts})
}

// What follows owns what a Job makes of the moment by which its attempt has passed its barrier, where it was lent room
// that is kept for another.

// startByLeftMs returns the time that COMMIT gives an attempt to pass its barrier.
func (j *Job) startByLeftMs() int64 {
	if j.startBy == 0 {
		return 0
	}
	return max(j.startBy.Since(j.p.Clock.Now()).Milliseconds(), 1)
}

// noteTooShort has the job lent room only for twice the time from now on, where an attempt came to nothing for lack of
// it.
func (j *Job) noteTooShort() {
	if j.startBy != 0 && j.p.Clock.Now() >= j.startBy {
		j.lent = max(j.lent, j.ready)
	}
}

// lentBefore is how long an attempt on disk had, where that was too short.
func lentBefore(a *messages.AttemptRecord) time.Duration {
	if a.GetEnd().GetCause() != messages.Cause_CAUSE_START_BY {
		return 0
	}
	return actors.Millis(a.StartByLeftMs)
}

// causeToldTo is the cause of a Stop as a machine's agent understands it.
func causeToldTo(s *contact, cause messages.Cause) messages.Cause {
	if cause == messages.Cause_CAUSE_UNWELL { // nothing here depends on which of the two it is
		return messages.Cause_CAUSE_MACHINE_LOST
	}
	if cause == messages.Cause_CAUSE_START_BY && s.vocabulary < messages.VocabularyStartBy {
		return messages.Cause_CAUSE_EXPIRED
	}
	return cause
}
